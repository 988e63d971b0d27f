/* Around each instruction: load everything, execute, store everything. */
.intel_syntax noprefix
.macro enter_state
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rip + saved_rsp], rsp
    fxrstor [rip + in + 704]
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovdqu ymm\n, [rip + in + 192 + 32 * \n]
    .endr
    push [rip + in + 128]
    popfq
    mov rax, [rip + in]
    mov rcx, [rip + in + 8]
    mov rdx, [rip + in + 16]
    mov rbx, [rip + in + 24]
    mov rbp, [rip + in + 40]
    mov rsi, [rip + in + 48]
    mov rdi, [rip + in + 56]
    mov r8, [rip + in + 64]
    mov r9, [rip + in + 72]
    mov r10, [rip + in + 80]
    mov r11, [rip + in + 88]
    mov r12, [rip + in + 96]
    mov r13, [rip + in + 104]
    mov r14, [rip + in + 112]
    mov r15, [rip + in + 120]
    mov rsp, [rip + in + 32]
.endm
.globl leave_state
leave_state:
    mov [rip + out], rax
    mov [rip + out + 8], rcx
    mov [rip + out + 16], rdx
    mov [rip + out + 24], rbx
    mov [rip + out + 32], rsp
    mov [rip + out + 40], rbp
    mov [rip + out + 48], rsi
    mov [rip + out + 56], rdi
    mov [rip + out + 64], r8
    mov [rip + out + 72], r9
    mov [rip + out + 80], r10
    mov [rip + out + 88], r11
    mov [rip + out + 96], r12
    mov [rip + out + 104], r13
    mov [rip + out + 112], r14
    mov [rip + out + 120], r15
    mov rsp, [rip + saved_rsp]
    pushfq
    pop [rip + out + 128]
    cld
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovdqu [rip + out + 192 + 32 * \n], ymm\n
    .endr
    fxsave [rip + out + 704]
    fninit
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
