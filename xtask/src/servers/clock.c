/* A wall clock that can be stepped while a process runs. Loaded before the C library, it adds an offset to the results
 * of gettimeofday, time and clock_gettime for the wall clock. The offset, in milliseconds, is the one number in the
 * file that TIDELOCK_CLOCK names; the file is mapped, so a write to it steps the clock at once. Monotonic clocks do
 * not change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ != 8
#error "the offset is read in one piece, which needs 64 bits"
#endif

static const int64_t none = 0;
static const volatile int64_t *offset_ms = &none;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("TIDELOCK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_ms = mapped;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    /* Allocators read the time before any constructor runs, and dlsym may allocate: ask the kernel until then. */
    int result = real ? real(id, now) : (int)syscall(SYS_clock_gettime, id, now);
    if (result != 0 || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    int64_t ms = *offset_ms;
    now->tv_sec += ms / 1000;
    now->tv_nsec += ms % 1000 * 1000000;
    if (now->tv_nsec < 0) {
        now->tv_nsec += 1000000000;
        now->tv_sec -= 1;
    } else if (now->tv_nsec >= 1000000000) {
        now->tv_nsec -= 1000000000;
        now->tv_sec += 1;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0) {
        tv->tv_sec = now.tv_sec;
        tv->tv_usec = now.tv_nsec / 1000;
    }
    if (zone)
        *(struct timezone *)zone = (struct timezone){0};
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
        return (time_t)-1;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
