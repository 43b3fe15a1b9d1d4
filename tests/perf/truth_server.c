/* A model server that keeps its word: it answers every request with the same pieces, each at its exact time.
 *
 *   truth_server PIECES LOG TTFT_US GAP_US [CERTIFICATE]
 *
 * PIECES: for each piece a u32 length (this machine's byte order) and its bytes; the first holds the response head.
 * Piece i is due TTFT + i * GAP after the request arrived, by the kernel's receive time stamp. LOG: for each finished
 * request int64 nanoseconds of CLOCK_MONOTONIC: arrived, then when each piece was handed to the kernel.
 * Prints its port, serves until SIGTERM. CERTIFICATE (PEM, with its key) turns TLS on; built without -DTLS it is refused.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef TLS
#include <openssl/ssl.h>
static SSL_CTX *tls;
#endif

#define REQUEST_BYTES (256 * 1024)
#define MAX_CONNECTIONS 65536
#define LOG_BUFFER_BYTES (256 << 20)

typedef struct {
    int fd, next, at; /* next piece (-1: no request under way); place in the heap (-1: not in it) */
    size_t have;
    char *request;
    int64_t due, *times;
#ifdef TLS
    SSL *ssl;
#endif
} connection;

static struct { uint32_t length; char *bytes; } *pieces;
static int piece_count, heap_size, epoll_fd;
static int64_t ttft, gap;
static connection **heap;
static FILE *log_file;
static volatile sig_atomic_t stopped;

static void stop(int number) { (void)number; stopped = 1; }
static void die(const char *what) { perror(what); exit(1); }

static int64_t now_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A binary heap of connections by due time. */
static void put(int i, connection *c) { heap[i] = c; c->at = i; }

static void sift(int i) {
    connection *c = heap[i];
    for (int up; i > 0 && heap[up = (i - 1) / 2]->due > c->due; i = up) put(i, heap[up]);
    for (int down; (down = 2 * i + 1) < heap_size; i = down) {
        if (down + 1 < heap_size && heap[down + 1]->due < heap[down]->due) down++;
        if (heap[down]->due >= c->due) break;
        put(i, heap[down]);
    }
    put(i, c);
}

static void heap_add(connection *c) { put(heap_size++, c); sift(c->at); }

static void heap_remove(connection *c) {
    int i = c->at;
    if (i < 0) return;
    c->at = -1;
    if (i == --heap_size) return;
    put(i, heap[heap_size]);
    sift(i);
}

static void drop(connection *c) {
    heap_remove(c);
#ifdef TLS
    if (c->ssl) SSL_free(c->ssl);
#endif
    close(c->fd);
    free(c->request);
    free(c->times);
    free(c);
}

static ssize_t receive(connection *c, char *to, size_t room, int64_t *arrived) {
    *arrived = now_of(CLOCK_MONOTONIC);
#ifdef TLS
    if (c->ssl) {
        int got = SSL_read(c->ssl, to, (int)room);
        if (got > 0) return got;
        errno = SSL_get_error(c->ssl, got) == SSL_ERROR_WANT_READ ? EAGAIN : EPROTO;
        return -1;
    }
#endif
    char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {to, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(c->fd, &message, 0);
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_type == SO_TIMESTAMPNS) {
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(head), sizeof stamp);
        int64_t late = now_of(CLOCK_REALTIME) - (stamp.tv_sec * 1000000000LL + stamp.tv_nsec);
        if (late > 0 && late < ttft) *arrived = now_of(CLOCK_MONOTONIC) - late;
    }
    return got;
}

static int transmit(connection *c, const char *bytes, size_t length) {
#ifdef TLS
    if (c->ssl) return SSL_write(c->ssl, bytes, (int)length) == (int)length;
#endif
    return send(c->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length; /* a client that does not read is dropped */
}

static int whole_request(connection *c) {
    c->request[c->have] = 0;
    char *end = strstr(c->request, "\r\n\r\n"), *length = strcasestr(c->request, "content-length:");
    return end && length && c->have >= (size_t)(end + 4 - c->request) + strtoul(length + 15, NULL, 10);
}

static void on_readable(connection *c) {
    int64_t arrived;
    ssize_t got;
    while ((got = receive(c, c->request + c->have, REQUEST_BYTES - 1 - c->have, &arrived)) > 0) {
        c->have += got;
        if (c->next >= 0) return drop(c); /* a second request before the first was answered */
        if (!whole_request(c)) continue;
        c->next = 0;
        c->times[0] = arrived;
        c->due = arrived + ttft;
        heap_add(c);
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR) || c->have == REQUEST_BYTES - 1) drop(c);
}

static void send_due(connection *c) {
    int i = c->next++;
    c->times[1 + i] = now_of(CLOCK_MONOTONIC);
    if (!transmit(c, pieces[i].bytes, pieces[i].length)) return drop(c);
    c->due += gap;
    if (c->next < piece_count) return sift(c->at);
    heap_remove(c);
    fwrite(c->times, sizeof(int64_t), 1 + piece_count, log_file);
    c->next = -1;
    c->have = 0;
}

static void on_connection(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
        connection *c = calloc(1, sizeof *c);
        c->fd = fd, c->next = c->at = -1;
        c->request = malloc(REQUEST_BYTES);
        c->times = malloc((1 + piece_count) * sizeof(int64_t));
#ifdef TLS
        if (tls) {
            c->ssl = SSL_new(tls);
            SSL_set_fd(c->ssl, fd);
            SSL_set_accept_state(c->ssl);
        }
#endif
        struct epoll_event event = {EPOLLIN, {.ptr = c}};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static void read_pieces(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    uint32_t length;
    while (fread(&length, sizeof length, 1, file) == 1) {
        pieces = realloc(pieces, (piece_count + 1) * sizeof *pieces);
        pieces[piece_count].length = length;
        pieces[piece_count].bytes = malloc(length);
        if (fread(pieces[piece_count++].bytes, 1, length, file) != length) die("pieces");
    }
    fclose(file);
}

static void turn_tls_on(const char *certificate) {
#ifdef TLS
    tls = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, certificate, SSL_FILETYPE_PEM) != 1) die(certificate);
#else
    fprintf(stderr, "built without TLS: %s\n", certificate);
    exit(2);
#endif
}

static int listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4096)) die("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int count, char **words) {
    if (count < 5) return fprintf(stderr, "truth_server PIECES LOG TTFT_US GAP_US [CERTIFICATE]\n"), 2;
    read_pieces(words[1]);
    log_file = fopen(words[2], "wb");
    if (!log_file || !piece_count) die(words[2]);
    setvbuf(log_file, NULL, _IOFBF, LOG_BUFFER_BYTES); /* written at the end: a disk may keep a writer waiting */
    ttft = atoll(words[3]) * 1000, gap = atoll(words[4]) * 1000;
    if (count > 5) turn_tls_on(words[5]);
    heap = malloc(MAX_CONNECTIONS * sizeof *heap);
    sigset_t term, none;
    sigemptyset(&none);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL); /* heard only while we wait, so never between the check and the wait */
    signal(SIGTERM, stop);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpriority(PRIO_PROCESS, 0, -15); /* where we may: the server's lateness must not pass for the client's */
    epoll_fd = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), listener = listen_on_loopback();
    struct epoll_event accepting = {EPOLLIN, {.ptr = &listener}}, timing = {EPOLLIN, {.ptr = &timer}}, events[64];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &accepting);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &timing);
    while (!stopped) {
        while (heap_size && heap[0]->due <= now_of(CLOCK_MONOTONIC)) send_due(heap[0]);
        int64_t next = heap_size ? heap[0]->due : 0;
        struct itimerspec when = {.it_value = {next / 1000000000, next % 1000000000}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        int ready = epoll_pwait(epoll_fd, events, 64, -1, &none);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == &listener) on_connection(listener);
            else if (events[i].data.ptr != &timer) on_readable(events[i].data.ptr);
        }
    }
    return fclose(log_file) != 0;
}
