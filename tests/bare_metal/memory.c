/* Memory for the program: pages that are there, or are not, as its mmap and mprotect say; and its heap. */
#include "machine.h"

#include <errno.h>
#include <sys/mman.h>

/* Bits of a page's entry; the last is one that the processor leaves to us. */
enum { PRESENT = 1, WRITABLE = 2, TAKEN = 0x200 };

/* 4 KB pages for mmap, absent until asked for; and none at address 0. */
void map_pages(void) {
  for (u64 i = 0; i < ARENA_PAGES; i++) TABLES[i] = ARENA + i * PAGE;
  for (u64 i = 0; i < ARENA_PAGES / 512; i++)
    ROM_LEVEL2[ARENA / (512 * PAGE) + i] = (u64)(TABLES + 512 * i) | PRESENT | WRITABLE;
  u64 *low = TABLES + ARENA_PAGES;
  for (u64 i = 0; i < 512; i++) low[i] = i == 0 ? 0 : i * PAGE | PRESENT | WRITABLE;
  ROM_LEVEL2[0] = (u64)low | PRESENT | WRITABLE;
  __asm__ volatile("mov %%cr3, %%rax; mov %%rax, %%cr3" : : : "rax", "memory");
}

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

u64 protect(u64 address, u64 bytes, u64 protection) {
  if (address < ARENA || (address - ARENA) / PAGE >= ARENA_PAGES) return 0;
  const u64 flags =
      TAKEN | (protection == PROT_NONE ? 0 : PRESENT) | (protection & PROT_WRITE ? WRITABLE : 0);
  for (u64 at = address; at < address + bytes; at += PAGE) {
    TABLES[(at - ARENA) / PAGE] = at | flags;
    __asm__ volatile("invlpg (%0)" : : "r"(at) : "memory");
  }
  return 0;
}

u64 map(u64 bytes, u64 protection, u64 flags) {
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

u64 unmap(u64 address, u64 bytes) {
  for (u64 at = address; at < address + bytes; at += PAGE) {
    TABLES[(at - ARENA) / PAGE] = at;
    __asm__ volatile("invlpg (%0)" : : "r"(at) : "memory");
  }
  return 0;
}

static u64 heap_start, heap_now;

void start_heap(u64 address) { heap_start = heap_now = address; }

u64 set_break(u64 wanted) {
  if (wanted < heap_start || wanted > HEAP_END) return heap_now;
  if (wanted > heap_now) zero((char *)heap_now, wanted - heap_now);
  return heap_now = wanted;
}
