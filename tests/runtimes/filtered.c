/* What a server could try with the kernel, without a library in between. Prints "name result": 0 or the errno, or the
 * signal as a negative number where a child of this program was killed by one. With "harmless": only what leaves nothing
 * behind outside of a sandbox. With numbers: calls each of them with arguments that are wrong for everything. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH (1UL << 32)
#define SHOW(name, call) (errno = 0, show(name, (long)(call)))

static void show(const char *name, long result) {
    printf("%s %d\n", name, result == -1 ? errno : 0);
}

/* In a child of its own: a call that may end the process, or that changes it. */
static void apart(const char *name, long (*call)(void)) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        _exit(call() == -1 ? errno : 0);
    }
    waitpid(child, &status, 0);
    printf("%s %d\n", name, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
}

static long new_user_namespace(unsigned long more) {
    long pid = syscall(SYS_clone, more | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long clone_user(void) { return new_user_namespace(0); }
static long clone_user_high(void) { return new_user_namespace(HIGH); }
static long unshare_user(void) { return syscall(SYS_unshare, CLONE_NEWUSER); }
static long trace_me(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long new_clone(void) {
    char arguments[64] = {0};
    long pid = syscall(435, arguments, sizeof arguments);
    if (pid == 0)
        _exit(0);
    return pid;
}
static long plain_clone(void) {
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}

#ifdef __x86_64__
static long i386_getpid(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    return result;
}
#endif

static int terminal = -1;
static long type_into(unsigned long command) {
    /* Only the terminal that a process belongs to can be typed into. */
    char letter = 'x';
    setsid();
    if (ioctl(terminal, TIOCSCTTY, 1) == -1) {
        errno = 99;
        return -1;
    }
    return syscall(SYS_ioctl, terminal, command, &letter);
}
static long sti(void) { return type_into(TIOCSTI); }
static long sti_high(void) { return type_into(HIGH | TIOCSTI); }
static long tty_linux(void) { return type_into(TIOCLINUX); }
static long tty_linux_high(void) { return type_into(HIGH << 7 | TIOCLINUX); }
static long tty_discipline(void) { return type_into(TIOCSETD); }
static long tty_console(void) { return type_into(TIOCCONS); }
static long tty_size(void) { return type_into(TIOCGWINSZ); }

static void terminals(void) {
    int own = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(own);
    unlockpt(own);
    terminal = open(ptsname(own), O_RDWR | O_NOCTTY);
    apart("ioctl(TIOCGWINSZ)", tty_size);
    apart("ioctl(TIOCSTI)", sti);
    apart("ioctl(TIOCSTI high)", sti_high);
    apart("ioctl(TIOCLINUX)", tty_linux);
    apart("ioctl(TIOCLINUX high)", tty_linux_high);
    apart("ioctl(TIOCSETD)", tty_discipline);
    apart("ioctl(TIOCCONS)", tty_console);
}

static void sockets(void) {
    int pair[2];
    SHOW("socket(inet)", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SHOW("socket(inet dgram)", socket(AF_INET, SOCK_DGRAM, 0));
    SHOW("socket(inet6)", socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0));
    SHOW("socket(inet raw)", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1));
    SHOW("socket(inet packet)", socket(AF_INET, SOCK_PACKET, 0));
    SHOW("socket(inet6 raw)", socket(AF_INET6, SOCK_RAW, 58));
    SHOW("socket(unix)", socket(AF_UNIX, SOCK_STREAM, 0));
    SHOW("socket(unix high)", syscall(SYS_socket, HIGH | AF_UNIX, SOCK_STREAM, 0));
    SHOW("socket(netlink route)", socket(AF_NETLINK, SOCK_RAW, 0));
    SHOW("socket(netlink audit)", socket(AF_NETLINK, SOCK_RAW, 9));
    SHOW("socket(netlink netfilter)", socket(AF_NETLINK, SOCK_RAW, 12));
    SHOW("socket(netlink generic)", socket(AF_NETLINK, SOCK_RAW, 16));
    SHOW("socket(packet)", socket(AF_PACKET, SOCK_RAW, 0));
    SHOW("socket(alg)", socket(AF_ALG, SOCK_SEQPACKET, 0));
    SHOW("socket(vsock)", socket(AF_VSOCK, SOCK_STREAM, 0));
    SHOW("socketpair(unix)", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    SHOW("socketpair(unix seqpacket)", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
    SHOW("socketpair(unix dgram)", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
    SHOW("socketpair(unix raw)", socketpair(AF_UNIX, SOCK_RAW, 0, pair));
    SHOW("socketpair(inet)", socketpair(AF_INET, SOCK_STREAM, 0, pair));
}

int main(int count, char **words) {
    int harmless = count > 1 && strcmp(words[1], "harmless") == 0;
    if (count > 1 && !harmless) {
        for (int at = 1; at < count; at++)
            SHOW(words[at], syscall(atol(words[at]), -1L, -1L, -1L, -1L, -1L, -1L));
        return 0;
    }
    char buffer[128] = {0};
#ifdef __x86_64__
    apart("int 0x80", i386_getpid);
    SHOW("x32 getpid", syscall(0x40000000 + SYS_getpid));
#endif
    SHOW("number 600", syscall(600));
    SHOW("number -1", syscall(-1));
    apart("clone", plain_clone);
    apart("clone(NEWUSER)", clone_user);
    apart("clone(NEWUSER high)", clone_user_high);
    apart("unshare(NEWUSER)", unshare_user);
    apart("ptrace(TRACEME)", trace_me);
    apart("clone3", new_clone);
    SHOW("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    SHOW("request_key", syscall(SYS_request_key, "user", "x", 0, -3));
    SHOW("add_key", syscall(SYS_add_key, "user", "", 0, 0, -1));
    SHOW("io_uring_setup", syscall(425, 1, buffer));
    SHOW("personality(0)", syscall(SYS_personality, 0));
    SHOW("personality(?)", syscall(SYS_personality, 0xffffffff));
    SHOW("personality(NO_RANDOMIZE)", syscall(SYS_personality, 0x40000));
    sockets();
    if (!harmless)
        terminals();
    return 0;
}
