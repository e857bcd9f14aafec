/* The ROM: from the processor's reset to 64-bit mode with the first GB mapped to itself, then to the kernel,
 * copied to 1 MB. It stands in the place of the BIOS, at the top of 4 GB and again below 1 MB, where it is linked. */
        .set    PAGES, 0x1000           /* three tables: level 4, level 3, level 2 */
        .set    KERNEL, 0x100000
        .set    STACK, 0x8000

        .code16
        .section .text, "ax"
real:   cli
        lgdtl   %cs:gdt_pointer - 0xf0000
        mov     %cr0, %eax
        or      $1, %al
        mov     %eax, %cr0
        ljmpl   $0x18, $protected

        .code32
protected:
        mov     $0x10, %ax
        mov     %ax, %ds
        mov     %ax, %es
        mov     %ax, %ss
        mov     $STACK, %esp
        mov     $PAGES, %edi            /* clear the tables */
        xor     %eax, %eax
        mov     $0xc00, %ecx
        rep stosl
        movl    $PAGES + 0x1003, PAGES
        movl    $PAGES + 0x2003, PAGES + 0x1000
        mov     $PAGES + 0x2000, %edi
        mov     $0x83, %eax             /* 2 MB, writable, present */
1:      mov     %eax, (%edi)
        add     $0x200000, %eax
        add     $8, %edi
        cmp     $PAGES + 0x3000, %edi
        jb      1b
        mov     $0x620, %eax            /* PAE, OSFXSR, OSXMMEXCPT */
        mov     %eax, %cr4
        mov     $PAGES, %eax
        mov     %eax, %cr3
        mov     $0xc0000080, %ecx       /* EFER: SYSCALL, long mode */
        rdmsr
        or      $0x101, %eax
        wrmsr
        mov     $0x80010033, %eax       /* PG, WP, NE, ET, MP, PE; caches on */
        mov     %eax, %cr0
        ljmpl   $0x08, $long

        .code64
long:   fninit                          /* with exceptions masked, as programs expect it */
        mov     $kernel_image, %esi
        mov     $KERNEL, %edi
        mov     $kernel_image_end - kernel_image, %ecx
        rep movsb
        mov     $KERNEL, %eax
        jmp     *%rax

        .balign 8
gdt:    .quad   0
        .quad   0x00af9b000000ffff      /* 0x08: 64-bit code */
        .quad   0x00cf93000000ffff      /* 0x10: data */
        .quad   0x00cf9b000000ffff      /* 0x18: 32-bit code */
gdt_pointer:
        .word   . - gdt - 1
        .long   gdt

kernel_image:
        .incbin "bare_metal_kernel.bin"
kernel_image_end:

        .section .reset, "ax"
        .code16
        jmp     real

        .section .note.GNU-stack, "", @progbits
