/* A kernel for one program: enough of Linux's system calls that a statically linked C test runs as it is,
 * alone on the emulated processor, with the register state (XCR0) that the parameters ask for. Linux itself
 * does not turn AVX-512 on there. */
#include "machine.h"

#include <elf.h>
#include <sys/auxv.h>

extern char exception_stubs[];
extern u64 gdt[];
extern char task_state[];
void syscall_entry(void);
_Noreturn void enter_program(u64 entry, u64 *stack);
_Noreturn void kernel_main(void);

static char *next_string(char *text) { return text + length_of(text) + 1; }

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

static const Elf64_Ehdr *load_program(void) {
  const Elf64_Ehdr *file = (const Elf64_Ehdr *)FILE_START;
  const Elf64_Phdr *part = (const Elf64_Phdr *)(FILE_START + file->e_phoff);
  for (int i = 0; i < file->e_phnum; i++, part++) {
    if (part->p_type != PT_LOAD) continue;
    copy((char *)part->p_vaddr, FILE_START + part->p_offset, part->p_filesz);
    zero((char *)part->p_vaddr + part->p_filesz, part->p_memsz - part->p_filesz);
    start_heap((part->p_vaddr + part->p_memsz + PAGE - 1) / PAGE * PAGE);
  }
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
