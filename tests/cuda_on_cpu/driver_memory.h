/* The memory of the stand-in: on the device, pinned on the host, managed. Included by driver_on_cpu.c. */
enum { MAX_BLOCKS = 4096 };
enum kind { DEVICE, PINNED, MANAGED };

static struct {
  uint64_t address;
  size_t size, mapped;
  void *base;
  enum kind kind;
} blocks[MAX_BLOCKS];
static size_t used;

static size_t capacity(void) {
  const char *text = getenv("FAKE_GPU_BYTES");
  return text ? strtoull(text, 0, 10) : (size_t)1 << 32;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  CALL;
  *total = capacity(), *free_bytes = *total - used;
  return context ? OK : BAD_CONTEXT;
}
/* A block that ends at an unmapped page; 0 where there is no room for it. */
static uint64_t block(size_t size, enum kind kind, size_t alignment) {
  const size_t page = 4096, mapped = (size + page - 1) / page * page + page;
  char *base = mmap(0, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return 0;
  mprotect(base + mapped - page, page, PROT_NONE);
  memset(base, 0xff, mapped - page);
  const uint64_t address = ((uint64_t)base + mapped - page - size) / alignment * alignment;
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (!blocks[i].address) {
      blocks[i].address = address, blocks[i].size = size, blocks[i].mapped = mapped,
      blocks[i].base = base, blocks[i].kind = kind;
      return address;
    }
  return 0;
}
static int release(uint64_t address, int pinned) {
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (address && blocks[i].address == address && (blocks[i].kind == PINNED) == pinned) {
      munmap(blocks[i].base, blocks[i].mapped);
      used -= blocks[i].kind == DEVICE ? blocks[i].size : 0, blocks[i].address = 0;
      return OK;
    }
  return INVALID;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  CALL;
  if (lost) return lost;
  if (!context) return BAD_CONTEXT;
  if (!size) return INVALID;
  if (used + size > capacity()) return MEMORY;
  /* As close to the unmapped page as the alignment that wmma's 16-byte reads rely on allows. */
  *address =
      block(size, DEVICE, getenv("FAKE_ALIGN") ? strtoull(getenv("FAKE_ALIGN"), 0, 10) : 256);
  return *address ? used += size, OK : MEMORY;
}
int cuMemFree_v2(uint64_t address) {
  CALL;
  if (lost) return lost;
  return release(address, 0);
}
int cuMemHostAlloc(void **host, size_t size, unsigned flags) {
  CALL;
  if (!context) return BAD_CONTEXT;
  if (!size || flags & ~7u) return INVALID;
  return *host = (void *)block(size, PINNED, 64), *host ? OK : MEMORY;
}
int cuMemFreeHost(void *host) {
  CALL;
  return release((uint64_t)host, 1);
}
/* Managed memory takes room on the device only while it is there: its size is not held against it. */
int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags) {
  CALL;
  if (!context) return BAD_CONTEXT;
  if (!size || (flags != 1 && flags != 2)) return INVALID;
  return *address = block(size, MANAGED, 256), *address ? OK : MEMORY;
}
static int within(uint64_t address, size_t size, int kinds) {
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].address && kinds >> blocks[i].kind & 1 && address >= blocks[i].address &&
        address + size <= blocks[i].address + blocks[i].size)
      return 1;
  return 0;
}
static int inside(uint64_t address, size_t size) {
  return within(address, size, 1 << DEVICE | 1 << MANAGED);
}
int cuMemAdvise(uint64_t address, size_t size, int advice, int device) {
  CALL;
  if (!within(address, size, 1 << MANAGED) || advice < 1 || advice > 6) return INVALID;
  return device != 0 && device != -1 ? 101 : OK;
}
