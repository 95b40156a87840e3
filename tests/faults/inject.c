/* Makes one call of write, fsync or rename on files of one folder fail: preloaded into the process under test.

Calls are counted from `fault_arm` on. The one with the given number fails as asked: with an error (once, or from then on, as
on a disk that is full), or, of a write, by taking only the first half of the bytes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long count, target;
static int error, forever, shorten, armed;
static long calls[3]; /* writes, syncs, renames */

enum { WRITE, SYNC, RENAME };

/* Counts calls in `where` from now on; number 0 fails none. */
void fault_arm(const char *where, long number, int with_error, int from_then_on, int half)
{
    strncpy(folder, where, sizeof folder - 1);
    count = 0;
    calls[WRITE] = calls[SYNC] = calls[RENAME] = 0;
    target = number, error = with_error, forever = from_then_on, shorten = half;
    armed = 1;
}

long fault_calls(int kind) { return calls[kind]; }
void fault_disarm(void) { armed = 0; }

static int is_ours(const char *path)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int is_our_file(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return 0;
    path[n] = 0;
    return is_ours(path);
}

/* Whether this call is the one: 0 no, 1 it fails, 2 it is cut short. */
static int strikes(int kind)
{
    long mine = __sync_add_and_fetch(&count, 1);
    __sync_add_and_fetch(&calls[kind], 1);
    if (!target || mine < target || (mine > target && !forever))
        return 0;
    if (shorten)
        return kind == WRITE ? 2 : 0;
    if (error == EINTR && kind == RENAME) /* which POSIX does not have */
        return 0;
    errno = error;
    return 1;
}

static int strikes_file(int kind, int fd)
{
    int before = errno;
    if (!armed || !is_our_file(fd)) {
        errno = before;
        return 0;
    }
    return strikes(kind);
}

static size_t half_of(size_t n) { return n > 1 ? n / 2 : n; }

ssize_t write(int fd, const void *bytes, size_t n)
{
    int struck = strikes_file(WRITE, fd);
    return struck == 1 ? -1 : syscall(SYS_write, fd, bytes, struck ? half_of(n) : n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    int struck = strikes_file(WRITE, fd);
    return struck == 1 ? -1 : syscall(SYS_pwrite64, fd, bytes, struck ? half_of(n) : n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) { return pwrite(fd, bytes, n, at); }

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    int struck = strikes_file(WRITE, fd);
    return struck == 1 ? -1 : syscall(SYS_writev, fd, parts, struck && n > 1 ? n / 2 : n);
}

int fsync(int fd) { return strikes_file(SYNC, fd) == 1 ? -1 : syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return strikes_file(SYNC, fd) == 1 ? -1 : syscall(SYS_fdatasync, fd); }

static int strikes_name(const char *path)
{
    char whole[4096];
    if (!armed)
        return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, sizeof whole))
            return 0;
        path = whole;
    }
    return is_ours(path) && strikes(RENAME) == 1;
}

int rename(const char *from, const char *to) { return strikes_name(to) ? -1 : syscall(SYS_renameat2, -100, from, -100, to, 0); }

int renameat(int a, const char *from, int b, const char *to)
{
    return strikes_name(to) ? -1 : syscall(SYS_renameat2, a, from, b, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return strikes_name(to) ? -1 : syscall(SYS_renameat2, a, from, b, to, flags);
}
