/* Text on the serial port; its last line, "exit N", is the verdict. */
#include "machine.h"

_Noreturn void report_exception(const u64 *frame);

enum { COM1 = 0x3f8, LINE_CONTROL = COM1 + 3, LINE_STATUS = COM1 + 5, SENT = 0x20 };

void serial_start(void) {
  out_byte(LINE_CONTROL, 0x80); /* divisor 1: 115200 baud, 8 bits */
  out_byte(COM1, 1);
  out_byte(COM1 + 1, 0);
  out_byte(LINE_CONTROL, 3);
}

void write_text(const char *text, u64 length) {
  for (u64 i = 0; i < length; i++) {
    while (!(in_byte(LINE_STATUS) & SENT)) continue;
    out_byte(COM1, (uint8_t)text[i]);
  }
}

u64 length_of(const char *text) {
  u64 length = 0;
  while (text[length]) length++;
  return length;
}

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

_Noreturn void end(u64 status) {
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
