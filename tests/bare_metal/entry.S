/* What C cannot say: the start, system calls and exceptions. All runs at the highest privilege, without
 * interrupts, so a system call is a jump with another stack. */
        .section .start, "ax"
        .globl  kernel_start
kernel_start:
        lea     kernel_stack_top(%rip), %rsp
        lea     bss_start(%rip), %rdi
        lea     bss_end(%rip), %rcx
        sub     %rdi, %rcx
        xor     %eax, %eax
        rep stosb
        lgdt    gdt_pointer(%rip)
        jmp     kernel_main

        .text
        .globl  syscall_entry
syscall_entry:
        mov     %rsp, program_stack(%rip) /* below it lies the red zone */
        lea     kernel_stack_top(%rip), %rsp
        push    %r11                    /* flags */
        push    %rcx                    /* where to return */
        push    %r9
        push    %r8
        push    %r10
        push    %rdx
        push    %rsi
        push    %rdi
        push    %rax
        mov     %rsp, %rdi
        sub     $8, %rsp
        call    system_call
        add     $8, %rsp
        pop     %rax                    /* the answer */
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %r10
        pop     %r8
        pop     %r9
        pop     %rcx
        popfq
        mov     program_stack(%rip), %rsp
        jmp     *%rcx

/* enter_program(entry, stack) */
        .globl  enter_program
enter_program:
        mov     %rsi, %rsp
        xor     %edx, %edx
        xor     %ebp, %ebp
        jmp     *%rdi

/* One stub a vector, 16 bytes each: the error code, or 0 for it, and the vector. */
        .globl  exception_stubs
        .balign 16
exception_stubs:
        .set    vector, 0
        .rept   32
        .balign 16
        .if     (0x60227d00 >> vector) & 1
        .else
        push    $0
        .endif
        push    $vector
        jmp     exception
        .set    vector, vector + 1
        .endr

exception:
        mov     %rsp, %rdi              /* vector, error code, rip, cs, flags, rsp, ss */
        sub     $8, %rsp
        call    report_exception

        .data
        .globl  gdt, task_state
        .balign 8
gdt:    .quad   0
        .quad   0x00af9b000000ffff      /* 0x08: code */
        .quad   0x00cf93000000ffff      /* 0x10: data */
        .quad   0x0000890000000067      /* 0x18: the task state; kernel_main fills in the address */
        .quad   0
gdt_pointer:
        .word   . - gdt - 1
        .quad   gdt
        .balign 8
task_state:
        .fill   36, 1, 0
        .quad   exception_stack_top     /* the stack of every exception */
        .fill   60, 1, 0

        .bss
        .balign 16
        .skip   32768
kernel_stack_top:
        .skip   8192
exception_stack_top:
program_stack:
        .skip   8

        .section .note.GNU-stack, "", @progbits
