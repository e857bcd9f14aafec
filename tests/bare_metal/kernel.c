/* A kernel for one program: enough of Linux's system calls that a statically linked C test runs as it is,
 * alone on the emulated processor, with the register state (XCR0) that the parameters ask for. Linux itself
 * does not turn AVX-512 on there.
 *
 *   0x1000     page tables of the ROM          0x300000   parameters
 *   0x100000   this kernel                     0x4800000  the program's stack, to 0x5000000
 *   0x200000   page tables of 4 KB pages       0x6000000  the program's file
 *   0x400000   the program, then its heap      0x8000000  memory for mmap, to 0x18000000
 *
 * Text goes to the serial port; its last line, "exit N", is the verdict. No threads: clone fails. */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

typedef uint64_t u64;

#define PARAMETERS ((char *)0x300000)
#define FILE_START ((char *)0x6000000)
#define TABLES     ((u64 *)0x200000)
#define ROM_LEVEL2 ((u64 *)0x3000)
#define STACK_TOP  ((u64 *)0x5000000)

enum { PAGE = 4096, HEAP_END = 0x4800000, ARENA = 0x8000000, ARENA_PAGES = 0x10000 };
enum { PRESENT = 1, WRITABLE = 2, LARGE = 0x80, TAKEN = 0x200 }; /* TAKEN: free for our use */

extern char exception_stubs[];
extern u64 gdt[];
extern char task_state[];
void syscall_entry(void);
_Noreturn void enter_program(u64 entry, u64 *stack);
_Noreturn void kernel_main(void);
_Noreturn void report_exception(const u64 *frame);
void system_call(u64 *registers);

/* --- the machine --------------------------------------------------------------------------------- */

static inline void out_byte(uint16_t port, uint8_t value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t in_byte(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static void write_msr(uint32_t msr, u64 value) {
  __asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

enum { COM1 = 0x3f8, LINE_CONTROL = COM1 + 3, LINE_STATUS = COM1 + 5, SENT = 0x20 };

static void serial_start(void) {
  out_byte(LINE_CONTROL, 0x80); /* divisor 1: 115200 baud, 8 bits */
  out_byte(COM1, 1);
  out_byte(COM1 + 1, 0);
  out_byte(LINE_CONTROL, 3);
}

static void write_text(const char *text, u64 length) {
  for (u64 i = 0; i < length; i++) {
    while (!(in_byte(LINE_STATUS) & SENT)) continue;
    out_byte(COM1, (uint8_t)text[i]);
  }
}

static u64 length_of(const char *text) {
  u64 length = 0;
  while (text[length]) length++;
  return length;
}

static char *next_string(char *text) { return text + length_of(text) + 1; }

static void say(const char *text) { write_text(text, length_of(text)); }

static void say_number(u64 value, u64 base) {
  char digits[20];
  int at = sizeof digits;
  do digits[--at] = "0123456789abcdef"[value % base];
  while (value /= base);
  write_text(digits + at, sizeof digits - (u64)at);
}

/* The emulator ends itself when it reads this word. */
static _Noreturn void power_off(void) {
  while (!(in_byte(LINE_STATUS) & 0x40)) continue; /* all sent */
  for (;;)
    for (const char *c = "Shutdown"; *c; c++) out_byte(0x8900, (uint8_t)*c);
}

static _Noreturn void end(u64 status) {
  say("\nexit ");
  say_number(status, 10);
  say("\n");
  power_off();
}

_Noreturn void report_exception(const u64 *frame) {
  u64 address;
  __asm__ volatile("mov %%cr2, %0" : "=r"(address));
  say("\nexception ");
  say_number(frame[0], 10);
  say(", error code 0x");
  say_number(frame[1], 16);
  say(", at 0x");
  say_number(frame[2], 16);
  say(", address 0x");
  say_number(address, 16);
  end(128 + 11);
}

/* --- the disk ------------------------------------------------------------------------------------- */

enum { ATA = 0x1f0, SECTOR = 512, BUSY = 0x80, DATA = 0x08 };

static void read_sector(uint32_t sector, char *to) {
  u64 words = SECTOR / 2;
  out_byte(ATA + 2, 1);
  out_byte(ATA + 3, (uint8_t)sector);
  out_byte(ATA + 4, (uint8_t)(sector >> 8));
  out_byte(ATA + 5, (uint8_t)(sector >> 16));
  out_byte(ATA + 6, 0xe0); /* by number, first disk */
  out_byte(ATA + 7, 0x20); /* read */
  while ((in_byte(ATA + 7) & (BUSY | DATA)) != DATA) continue;
  __asm__ volatile("rep insw" : "+D"(to), "+c"(words) : "d"(ATA) : "memory");
}

/* Sectors 0 to 7: the parameters, the first of them the length of the program's file; then that. */
static void read_disk(void) {
  u64 bytes = 0;
  for (uint32_t i = 0; i < 8; i++) read_sector(i, PARAMETERS + i * SECTOR);
  for (const char *c = PARAMETERS; *c; c++) bytes = bytes * 10 + (u64)(*c - '0');
  for (uint32_t i = 0; i * SECTOR < bytes; i++) read_sector(8 + i, FILE_START + i * SECTOR);
}

/* --- start ---------------------------------------------------------------------------------------- */

typedef struct {
  uint16_t offset_low, selector;
  uint8_t stack, kind;
  uint16_t offset_middle;
  uint32_t offset_high, zero;
} gate;

static gate gates[32];

static void catch_exceptions(void) {
  const struct {
    uint16_t limit;
    u64 base;
  } __attribute__((packed)) pointer = {sizeof gates - 1, (u64)gates};
  for (u64 i = 0; i < 32; i++) {
    const u64 stub = (u64)exception_stubs + 16 * i;
    gates[i] = (gate){(uint16_t)stub, 0x08, 1, 0x8e, (uint16_t)(stub >> 16), 0, 0};
  }
  __asm__ volatile("lidt %0" : : "m"(pointer));
}

static void accept_system_calls(void) {
  write_msr(0xc0000081, (u64)0x08 << 32); /* STAR */
  write_msr(0xc0000082, (u64)syscall_entry);
  write_msr(0xc0000084, 0x700); /* clears IF, DF, TF */
}

/* 4 KB pages for mmap, absent until asked for; and none at address 0. */
static void map_pages(void) {
  for (u64 i = 0; i < ARENA_PAGES; i++) TABLES[i] = ARENA + i * PAGE;
  for (u64 i = 0; i < ARENA_PAGES / 512; i++)
    ROM_LEVEL2[ARENA / (512 * PAGE) + i] = (u64)(TABLES + 512 * i) | PRESENT | WRITABLE;
  u64 *low = TABLES + ARENA_PAGES;
  for (u64 i = 0; i < 512; i++) low[i] = i == 0 ? 0 : i * PAGE | PRESENT | WRITABLE;
  ROM_LEVEL2[0] = (u64)low | PRESENT | WRITABLE;
  __asm__ volatile("mov %%cr3, %%rax; mov %%rax, %%cr3" : : : "rax", "memory");
}

static int hex_digit(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

/* XCR0 in hexadecimal; "off" leaves the whole mechanism (CR4.OSXSAVE) off. */
static void set_register_state(const char *text) {
  u64 mask = 0;
  if (text[0] == 'o') return;
  for (; *text; text++) mask = mask * 16 + (u64)hex_digit(*text);
  __asm__ volatile("mov %%cr4, %%rax; or $0x40000, %%rax; mov %%rax, %%cr4" : : : "rax");
  __asm__ volatile("xsetbv" : : "a"((uint32_t)mask), "d"(0), "c"(0));
}

/* --- the program ---------------------------------------------------------------------------------- */

static u64 heap_start, heap_now;

static void copy(char *to, const char *from, u64 bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void zero(char *to, u64 bytes) {
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
}

static const Elf64_Ehdr *load_program(void) {
  const Elf64_Ehdr *file = (const Elf64_Ehdr *)FILE_START;
  const Elf64_Phdr *part = (const Elf64_Phdr *)(FILE_START + file->e_phoff);
  for (int i = 0; i < file->e_phnum; i++, part++) {
    if (part->p_type != PT_LOAD) continue;
    copy((char *)part->p_vaddr, FILE_START + part->p_offset, part->p_filesz);
    zero((char *)part->p_vaddr + part->p_filesz, part->p_memsz - part->p_filesz);
    heap_start = (part->p_vaddr + part->p_memsz + PAGE - 1) / PAGE * PAGE;
  }
  heap_now = heap_start;
  return file;
}

/* A list of strings that an empty one ends; their addresses, then 0, go to the stack. */
static u64 *put_strings(u64 *stack, char **list, u64 *count) {
  char *text = *list;
  for (*count = 0; *text; text = next_string(text), ++*count) *stack++ = (u64)text;
  *stack++ = 0;
  *list = text + 1;
  return stack;
}

/* The parameters go on with XCR0, the arguments, an empty string, the environment, an empty string. */
static u64 *lay_out_stack(const Elf64_Ehdr *file, char *list) {
  static u64 random[2] = {0x0123456789abcdef, 0xfedcba9876543210};
  const u64 vector[] = {AT_PAGESZ, PAGE,
                        AT_PHDR,   (u64)FILE_START + file->e_phoff,
                        AT_PHENT,  sizeof(Elf64_Phdr),
                        AT_PHNUM,  file->e_phnum,
                        AT_ENTRY,  file->e_entry,
                        AT_RANDOM, (u64)random,
                        AT_NULL,   0};
  u64 *stack = STACK_TOP - 512, *at = stack + 1, count;
  at = put_strings(at, &list, stack);
  at = put_strings(at, &list, &count);
  copy((char *)at, (const char *)vector, sizeof vector);
  return stack;
}

_Noreturn void kernel_main(void) {
  const u64 state = (u64)task_state;
  gdt[3] |= (state & 0xffffff) << 16 | (state >> 24 & 0xff) << 56;
  gdt[4] = state >> 32;
  __asm__ volatile("ltr %w0" : : "r"(0x18));
  serial_start();
  catch_exceptions();
  accept_system_calls();
  map_pages();
  read_disk();
  char *state_text = next_string(PARAMETERS);
  set_register_state(state_text);
  const Elf64_Ehdr *file = load_program();
  enter_program(file->e_entry, lay_out_stack(file, next_string(state_text)));
}

/* --- memory --------------------------------------------------------------------------------------- */

static u64 next_page; /* where the search for free pages goes on */

static u64 free_run(u64 first, u64 pages) {
  u64 run = 0;
  while (run < pages && first + run < ARENA_PAGES && !(TABLES[first + run] & TAKEN)) run++;
  return run;
}

static u64 find_pages(u64 from, u64 pages) {
  for (u64 first = from; first + pages <= ARENA_PAGES;) {
    const u64 run = free_run(first, pages);
    if (run == pages) return first;
    first += run + 1;
  }
  return ARENA_PAGES;
}

static u64 protect(u64 address, u64 bytes, u64 protection) {
  if (address < ARENA || (address - ARENA) / PAGE >= ARENA_PAGES) return 0;
  const u64 flags =
      TAKEN | (protection == PROT_NONE ? 0 : PRESENT) | (protection & PROT_WRITE ? WRITABLE : 0);
  for (u64 at = address; at < address + bytes; at += PAGE) {
    TABLES[(at - ARENA) / PAGE] = at | flags;
    __asm__ volatile("invlpg (%0)" : : "r"(at) : "memory");
  }
  return 0;
}

static u64 map(u64 bytes, u64 protection, u64 flags) {
  const u64 pages = (bytes + PAGE - 1) / PAGE;
  if (!(flags & MAP_ANONYMOUS)) return (u64)-ENODEV;
  u64 first = find_pages(next_page, pages);
  if (first == ARENA_PAGES) first = find_pages(0, pages);
  if (first == ARENA_PAGES) return (u64)-ENOMEM;
  const u64 address = ARENA + first * PAGE;
  next_page = first + pages;
  protect(address, pages * PAGE, PROT_WRITE);
  zero((char *)address, pages * PAGE);
  protect(address, pages * PAGE, protection);
  return address;
}

static u64 unmap(u64 address, u64 bytes) {
  for (u64 at = address; at < address + bytes; at += PAGE) {
    TABLES[(at - ARENA) / PAGE] = at;
    __asm__ volatile("invlpg (%0)" : : "r"(at) : "memory");
  }
  return 0;
}

static u64 set_break(u64 wanted) {
  if (wanted < heap_start || wanted > HEAP_END) return heap_now;
  if (wanted > heap_now) zero((char *)heap_now, wanted - heap_now);
  return heap_now = wanted;
}

/* --- system calls --------------------------------------------------------------------------------- */

/* A microsecond passes with each look at the clock. */
static u64 tell_time(u64 *time) {
  static u64 now_us;
  now_us++;
  time[0] = now_us / 1000000, time[1] = now_us % 1000000 * 1000;
  return 0;
}

static u64 give_random(unsigned char *to, u64 bytes) {
  for (u64 i = 0; i < bytes; i++) to[i] = (unsigned char)(i * 151 + 7);
  return bytes;
}

/* Six fields of 65 characters; the C library looks at the release, the third. */
static u64 name_system(char *fields) {
  zero(fields, 6 * 65);
  copy(fields, "Linux", 5);
  copy(fields + 2 * 65, "6.1.0", 5);
  return 0;
}

static u64 set_thread_pointer(u64 what, u64 address) {
  if (what != 0x1002) return (u64)-EINVAL; /* ARCH_SET_FS */
  write_msr(0xc0000100, address);
  return 0;
}

static u64 answer(u64 number, u64 a, u64 b, u64 c, u64 d) {
  switch (number) {
  case SYS_write:
    write_text((const char *)b, c);
    return c;
  case SYS_exit:
  case SYS_exit_group:
    end(a);
  case SYS_mmap:
    return map(b, c, d);
  case SYS_munmap:
    return unmap(a, b);
  case SYS_mprotect:
    return protect(a, b, c);
  case SYS_brk:
    return set_break(a);
  case SYS_arch_prctl:
    return set_thread_pointer(a, b);
  case SYS_clock_gettime:
    return tell_time((u64 *)b);
  case SYS_getrandom:
    return give_random((unsigned char *)a, b);
  case SYS_uname:
    return name_system((char *)a);
  case SYS_getpid:
  case SYS_gettid:
  case SYS_set_tid_address:
    return 1;
  case SYS_open:
  case SYS_openat:
  case SYS_readlink:
  case SYS_readlinkat:
    return (u64)-ENOENT;
  case SYS_clone:
  case SYS_clone3:
    return (u64)-EAGAIN;
  case SYS_madvise:
  case SYS_sched_yield:
  case SYS_rt_sigaction:
  case SYS_rt_sigprocmask:
  case SYS_futex:
    return 0;
  default:
    return (u64)-ENOSYS;
  }
}

/* rax rdi rsi rdx r10 */
void system_call(u64 *r) { r[0] = answer(r[0], r[1], r[2], r[3], r[4]); }
