/*
 * Shifts the wall clock of the server that it is preloaded into. The file that SLUICE_CLOCK names is
 * a page that the test shares with it: see clock_linux.go. Monotonic clocks stay as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    int64_t offset;   /* microseconds that the clock is ahead */
    int64_t stopped;  /* microseconds since 1970 at which it stands; 0: it runs */
    int64_t attached; /* set by the server: it is preloaded */
};

static struct page *page;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("SLUICE_CLOCK");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED) return;
    page = shared;
    __atomic_store_n(&page->attached, 1, __ATOMIC_SEQ_CST);
}

static void shift(struct timespec *t) {
    if (!page) return;
    int64_t us = __atomic_load_n(&page->stopped, __ATOMIC_SEQ_CST);
    int64_t ns = 0;
    if (us == 0) {
        us = t->tv_sec * INT64_C(1000000) + t->tv_nsec / 1000 + __atomic_load_n(&page->offset, __ATOMIC_SEQ_CST);
        ns = t->tv_nsec % 1000;
    }
    t->tv_sec = us / 1000000;
    t->tv_nsec = us % 1000000 * 1000 + ns;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) shift(t);
    return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (seconds) *seconds = t.tv_sec;
    return t.tv_sec;
}
