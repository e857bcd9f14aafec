#!/bin/sh
# run_bochs.sh ROM MODEL XCR0 PATTERN [NAME=VALUE...] PROGRAM [ARGUMENT...]
#
# Runs a statically linked PROGRAM alone on an emulated processor, with these register states turned on (XCR0 in
# hexadecimal, or "off"). Passes when its text, on the serial port, has a line that matches PATTERN; the
# program's own end is the line "exit N". Exit status 77 (skipped) without bochs.
set -eu
command -v bochs >/dev/null || {
  echo "skipped: bochs is not installed (Debian: apt install bochs)"
  exit 77
}
rom=$1 model=$2 xcr0=$3 pattern=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
environment=
while case $1 in *=*) ;; *) false ;; esac do
  environment="$environment $1"
  shift
done
program=$1
shift

# Eight sectors of parameters, then the program; bochs wants whole cylinders of 16 x 63 sectors.
printf '%s\0' "$(stat -c %s "$program")" "$xcr0" "${program##*/}" "$@" '' $environment '' >"$work/disk"
truncate -s 4096 "$work/disk"
cat "$program" >>"$work/disk"
truncate -s %516096 "$work/disk"

cp "$rom" "$work/rom" # a path without characters that mean something in the next file
cat >"$work/bochsrc" <<END
cpu: model=$model, count=1, ips=200000000, reset_on_triple_fault=0
memory: guest=512, host=512
romimage: file=$work/rom, address=0xffff0000
ata0-master: type=disk, path=$work/disk, mode=flat
com1: enabled=1, mode=file, dev=$work/serial
display_library: rfb, options="timeout=0"
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
log: $work/log
panic: action=fatal
error: action=report
END
echo c >"$work/debugger" # where bochs is built with its debugger, that waits for a command
options=
bochs --help 2>&1 | grep -q -- ' -rc ' && options="-rc $work/debugger"
: >"$work/serial"
timeout -k 5 "${BOCHS_TIMEOUT:-200}" bochs -q -f "$work/bochsrc" $options </dev/null >"$work/output" 2>&1 || true

cat "$work/serial"
grep -qE "$pattern" "$work/serial" && exit 0
echo "no line matches '$pattern'; the emulator's last words:"
tail -n 5 "$work/output"
exit 1
