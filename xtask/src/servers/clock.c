/* A wall clock that can be stepped while a process runs. Loaded before the C library, it adds an offset to the results
 * of gettimeofday, time and clock_gettime for the wall clock. The offset, in milliseconds, is the one number in the
 * file that TIDELOCK_CLOCK names; the file is mapped, so a write to it steps the clock at once. Monotonic clocks do
 * not change. A wait until a moment of the wall clock ends by the kernel's clock, so the offset is taken off again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
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
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    /* An older version of this function has the same name. */
    *(void **)&real_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_wait)
        *(void **)&real_wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const char *path = getenv("TIDELOCK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_ms = mapped;
}

static void add(struct timespec *moment, int64_t ms) {
    moment->tv_sec += ms / 1000;
    moment->tv_nsec += ms % 1000 * 1000000;
    if (moment->tv_nsec < 0) {
        moment->tv_nsec += 1000000000;
        moment->tv_sec -= 1;
    } else if (moment->tv_nsec >= 1000000000) {
        moment->tv_nsec -= 1000000000;
        moment->tv_sec += 1;
    }
}

int clock_gettime(clockid_t id, struct timespec *now) {
    /* Allocators read the time before any constructor runs, and dlsym may allocate: ask the kernel until then. */
    int result = real ? real(id, now) : (int)syscall(SYS_clock_gettime, id, now);
    if (result != 0 || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    add(now, *offset_ms);
    return 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec moment = *until;
    /* A monotonic clock began when the machine did. */
    if (moment.tv_sec > 1000000000)
        add(&moment, -*offset_ms);
    return real_wait(cond, mutex, &moment);
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
