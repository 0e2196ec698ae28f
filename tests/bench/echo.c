/* A bare libmicrohttpd server, the yardstick of bench-service: one polling thread, epoll, the flags
 * of attnd. It collects the body of a request and answers with as many bytes as asked for.
 *
 *   echo PORT BYTES        answers every request with BYTES bytes of JSON-like text until killed */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    size_t size, room;
    char *body;
} request;

static char *answer;
static size_t answer_size;

static enum MHD_Result collect(request *r, const char *data, size_t size) {
    if (r->size + size > r->room) {
        size_t room = 2 * (r->size + size);
        char *body = realloc(r->body, room);
        if (!body)
            return MHD_NO;
        r->body = body;
        r->room = room;
    }
    memcpy(r->body + r->size, data, size);
    r->size += size;
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context) {
    (void)cls;
    (void)url;
    (void)method;
    (void)version;
    if (!*context) {
        *context = calloc(1, sizeof(request));
        return *context ? MHD_YES : MHD_NO;
    }
    if (*size) {
        enum MHD_Result result = collect(*context, data, *size);
        *size = 0;
        return result;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer_size, answer, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode how) {
    request *r = *context;
    (void)cls;
    (void)connection;
    (void)how;
    if (r)
        free(r->body);
    free(r);
    *context = NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: echo PORT BYTES\n", stderr);
        return 2;
    }
    answer_size = strtoul(argv[2], NULL, 10);
    answer = malloc(answer_size + 1);
    if (!answer)
        return 1;
    memset(answer, '1', answer_size);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (unsigned short)atoi(argv[1]),
        NULL, NULL, on_request, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_CONNECTION_LIMIT, 4096u, MHD_OPTION_END);
    if (!daemon) {
        fprintf(stderr, "echo: cannot listen on port %s\n", argv[1]);
        free(answer);
        return 3;
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
