/* Shifted clocks. Preloaded into a process, it adds an offset to everything that returns the time of day, and takes another
 * one from the monotonic clock. Both, in microseconds, are stored in the 16-byte file named by LOCK_TESTKIT_CLOCK. Writing to
 * the file sets the clocks. The boot-time clock is not affected. The library calls the kernel directly, because the
 * functions it replaces must not be called while a process is being loaded. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

static int64_t shift(int which) {
    static int64_t none[2];
    if (!offset) {
        const char *path = getenv("LOCK_TESTKIT_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *map = file < 0 ? MAP_FAILED : mmap(0, sizeof none, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        offset = map == MAP_FAILED ? none : map;
    }
    return offset[which];
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    if (!failed && (is_wall || is_monotonic)) {
        int64_t by = is_wall ? shift(0) : -shift(1);
        int64_t micros = time->tv_sec * INT64_C(1000000) + time->tv_nsec / 1000 + by;
        time->tv_nsec = micros % 1000000 * 1000 + time->tv_nsec % 1000;
        time->tv_sec = micros / 1000000;
    }
    return (int)failed;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
