/* What the parts of the kernel know of each other, and the processor's instructions that C lacks. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;

/*   0x1000     page tables of the ROM          0x300000   parameters
 *   0x100000   this kernel                     0x4800000  the program's stack, to 0x5000000
 *   0x200000   page tables of 4 KB pages       0x6000000  the program's file
 *   0x400000   the program, then its heap      0x8000000  memory for mmap, to 0x18000000 */
#define ROM_LEVEL2 ((u64 *)0x3000)
#define TABLES     ((u64 *)0x200000)
#define PARAMETERS ((char *)0x300000)
#define STACK_TOP  ((u64 *)0x5000000)
#define FILE_START ((char *)0x6000000)

enum { PAGE = 4096, HEAP_END = 0x4800000, ARENA = 0x8000000, ARENA_PAGES = 0x10000 };

/* serial.c */
void serial_start(void);
void write_text(const char *text, u64 length);
u64 length_of(const char *text);
_Noreturn void end(u64 status);

/* memory.c */
void map_pages(void);
void start_heap(u64 address);
u64 map(u64 bytes, u64 protection, u64 flags);
u64 unmap(u64 address, u64 bytes);
u64 protect(u64 address, u64 bytes, u64 protection);
u64 set_break(u64 wanted);

static inline void out_byte(uint16_t port, uint8_t value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t in_byte(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static inline void write_msr(uint32_t msr, u64 value) {
  __asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

static inline void copy(char *to, const char *from, u64 bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static inline void zero(char *to, u64 bytes) {
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
}

#endif
