/* Redirects the connections of a process. Loaded before the C library, it turns a connection to 127.0.0.1:FROM
 * into one to 127.0.0.1:TO, for each FROM:TO in TIDELOCK_CABLES. The addresses of peers that the process reads and
 * sends do not change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST 16

static int (*real)(int, const struct sockaddr *, socklen_t);
static in_port_t from[MOST], to[MOST];
static int count;

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    const char *cables = getenv("TIDELOCK_CABLES");
    unsigned a, b;
    while (cables && count < MOST && sscanf(cables, "%u:%u", &a, &b) == 2) {
        from[count] = htons(a);
        to[count++] = htons(b);
        cables = strchr(cables, ' ');
        cables = cables ? cables + 1 : NULL;
    }
}

/* IPv4 and IPv6 addresses have their port at the same place. */
int connect(int file, const struct sockaddr *address, socklen_t length) {
    struct sockaddr_storage other;
    if (length < sizeof(struct sockaddr_in) || length > sizeof other ||
        (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return real(file, address, length);
    memcpy(&other, address, length);
    in_port_t *port = &((struct sockaddr_in *)&other)->sin_port;
    for (int i = 0; i < count; i++) {
        if (*port == from[i]) {
            *port = to[i];
            break;
        }
    }
    return real(file, (struct sockaddr *)&other, length);
}
