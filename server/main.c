/* The program attnd: reads the settings, starts the service, waits for a signal and stops it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/service/service_api.h"
#include "app.h"
#include "command/command.h"
#include "config/document.h"
#include "config/nearest.h"
#include "http/address.h"
#include "http/daemon.h"
#include "http/health.h"
#include "jobs/jobs.h"
#include "system/embedded.h"
#include "system/mapped.h"
#include "system/notify.h"
#include "wire/decode.h"

typedef enum command {
    RUN,
    HELLO,
    CHECK_CONFIG,
    PRINT_CONFIG,
    PRINT_REFERENCE,
    PRINT_OPENAPI,
    HEALTHCHECK,
    HELP,
    VERSION,
} command;

static const struct {
    const char *flag;
    command command;
    const char *doc;
} commands[] = {
    {"--hello", HELLO, "serve, and print a request to try"},
    {"--check-config", CHECK_CONFIG, "check the settings and exit"},
    {"--print-config", PRINT_CONFIG, "print the settings as JSON and exit"},
    {"--print-config-reference", PRINT_REFERENCE, "print the table of all settings and exit"},
    {"--print-openapi", PRINT_OPENAPI, "print openapi.json and exit"},
    {"--healthcheck", HEALTHCHECK,
     "ask the service at the configured address; exit 0 when it is well"},
    {"--help", HELP, "print this text; also -h"},
    {"--version", VERSION, "print the version"},
};
#define COMMANDS (sizeof commands / sizeof *commands)

static void print_help(void) {
    puts("attnd: an attention service over HTTP.\n\n"
         "usage: attnd [--config FILE] [--listen ADDRESS] [--port N] [settings]");
    srv_command_print_all();
    putchar('\n');
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-26s %s\n", commands[i].flag, commands[i].doc);
    puts("  --config FILE              read settings from a JSON file\n"
         "  --port N                   set the port of --listen; 0 takes a free one and prints "
         "it\n\n"
         "Settings. A later source wins: defaults, file, environment (ATTND_<KEY>), command line.");
    srv_config_print_options(stdout);
    puts("\nexit codes:\n"
         "  0  SIGTERM or SIGINT stopped it after the accepted requests, or the check succeeded\n"
         "  1  --healthcheck: the service is not well\n"
         "  2  an option or a setting is wrong, or the configuration cannot be read\n"
         "  3  it cannot listen on an address\n"
         "  4  the processor lacks the requested instruction set\n"
         "  5  there is not enough memory, or too few threads, to start\n"
         "  6  a second signal cut the shutdown short\n"
         "  7  libmicrohttpd is older than 0.9.75, or than the version 1.0 of its headers");
}

static bool say(const srv_config_error *err) {
    fprintf(stderr, "attnd: %s\n", err->text);
    return false;
}

static bool missing_value(const char *flag) {
    fprintf(stderr, "attnd: %s needs a value (see --help)\n", flag);
    return false;
}

/* Reads the embedded config/attnd.json, which repeats the default values. Therefore the ops_listen
 * in that file does not count as set by the user (ops_given). */
static bool read_embedded(srv_config *config, srv_config_error *err) {
    for (const srv_file *file = srv_embedded; file->name; file++)
        if (!strcmp(file->name, "attnd.json")) {
            bool ok = srv_config_json(config, file->data, file->size, "attnd.json", err);
            config->ops_given = false;
            return ok;
        }
    return true;
}

/* Applies --port N: replaces the port in the setting `listen`, or adds it to an address without
 * one. The last colon of [::1] belongs to the address. */
static bool set_port(srv_config *config, const char *port, srv_config_error *err) {
    char text[512];
    const char *colon = strrchr(config->listen, ':');
    bool has_port = colon && !strchr(colon, ']');
    int length = (int)(has_port ? (size_t)(colon - config->listen) : strlen(config->listen));
    srv_address address;
    errno = 0;
    snprintf(text, sizeof text, "%.*s:%s", length, config->listen, port);
    if (!strncmp(config->listen, "unix:", 5) || !srv_address_parse(text, &address)) {
        if (errno == ENOMEM) {
            srv_config_short(err, "read the settings");
            return say(err);
        }
        fprintf(stderr,
                "attnd: --port must be 0 to 65535 beside an address in \"listen\", found "
                "\"%.80s\" beside \"%.80s\"\n",
                port, config->listen);
        return false;
    }
    return srv_config_set(config, "listen", text, "--port", err) || say(err);
}

enum { MOST_OPTIONS = 64 }; /* largest number of known options that unknown_option compares */

/* Writes the key of the setting for an option to `key`: "max_cells" for --max-cells. `length` is
 * the length of the option's name with its dashes. Returns false if the name is longer than any
 * key. */
static bool option_name(const char *flag, size_t length, char key[64]) {
    if (length - 2 >= 64)
        return false;
    for (size_t i = 0; i < length - 2; i++)
        key[i] = flag[2 + i] == '-' ? '_' : flag[2 + i];
    key[length - 2] = 0;
    return true;
}

static bool is_option(const char *flag, size_t length) {
    char key[64];
    return option_name(flag, length, key) &&
           (srv_setting_find(key) || !strcmp(key, "config") || !strcmp(key, "port"));
}

/* Prints that the option is unknown, with the most similar known option, or that it takes no value.
 * Returns false. */
static bool unknown_option(const char *flag, size_t length) {
    const char *names[MOST_OPTIONS] = {"config", "port"}, *near = NULL;
    size_t count = 2;
    char key[64], nearest[64] = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        names[count++] = commands[i].flag + 2;
        if (strlen(commands[i].flag) == length && !strncmp(commands[i].flag, flag, length)) {
            fprintf(stderr, "attnd: %s takes no value\n", commands[i].flag);
            return false;
        }
    }
    for (const srv_setting *row = srv_settings; row->key && count < MOST_OPTIONS; row++)
        names[count++] = row->key;
    if (option_name(flag, length, key))
        near = srv_nearest(key, names, count);
    for (size_t i = 0; near && near[i] && i + 1 < sizeof nearest; i++)
        nearest[i] = near[i] == '_' ? '-' : near[i];
    fprintf(stderr, "attnd: unknown option %.*s%s%s%s\n", (int)(length < 80 ? length : 80), flag,
            near ? ", did you mean --" : " (see --help)", nearest, near ? "?" : "");
    return false;
}

/* Sets the setting that the option `flag` names. */
static bool take_option(srv_config *config, const char *flag, size_t length, const char *value,
                        srv_config_error *err) {
    char key[64], origin[80];
    snprintf(origin, sizeof origin, "%.*s", (int)length, flag);
    return option_name(flag, length, key) &&
           (srv_config_set(config, key, value, origin, err) || say(err));
}

static bool is_command(const char *text, command *out) {
    if (!strcmp(text, "-h"))
        text = "--help";
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].flag, text)) {
            *out = commands[i].command;
            return true;
        }
    return false;
}

/* Reads the command line. It is read twice, because the file of settings must be read between: the
 * settings of the command line replace those of the file. If `settings` is false, reads only the
 * path of --config and a command such as --help. If `settings` is true, reads the settings. */
static bool walk(srv_config *config, int argc, char **argv, const char **file, command *what,
                 bool settings, srv_config_error *err) {
    const char *port = NULL;
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        size_t length = strcspn(flag, "=");
        if (is_command(flag, what))
            continue;
        if (strncmp(flag, "--", 2) || length == 2) {
            fprintf(stderr, "attnd: unexpected argument \"%.80s\" (see --help)\n", flag);
            return false;
        }
        if (!is_option(flag, length))
            return unknown_option(flag, length);
        const char *value = flag[length] ? flag + length + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return missing_value(flag);
        if (length == 8 && !strncmp(flag, "--config", length))
            *file = value;
        else if (length == 6 && !strncmp(flag, "--port", length))
            port = value;
        else if (settings && !take_option(config, flag, length, value, err))
            return false;
    }
    return !settings || !port || set_port(config, port, err);
}

static bool read_settings(srv_config *config, int argc, char **argv, command *what,
                          srv_config_error *err) {
    const char *file = NULL;
    if (!srv_config_init(config, err))
        return say(err);
    if (!walk(config, argc, argv, &file, what, false, err))
        return false;
    if (file ? !srv_config_file(config, file, err) : !read_embedded(config, err))
        return say(err);
    if (!srv_config_environment(config, environ, err))
        return say(err);
    return walk(config, argc, argv, &file, what, true, err);
}

static int check_health(const srv_config *config) {
    srv_address address;
    if (!srv_address_parse(config->listen, &address)) {
        fprintf(stderr, "attnd: \"listen\" is no address: %.200s\n", config->listen);
        return SRV_EXIT_USAGE;
    }
    if (srv_health_ask(&address, *config->tls_cert, 2000))
        return SRV_EXIT_OK;
    fprintf(stderr, "attnd: no healthy answer from %s\n", config->listen);
    return SRV_EXIT_UNHEALTHY;
}

enum { DOCUMENT_ROOM = 16 << 20 }; /* more bytes than openapi.json needs */

/* Prints the answer of GET /openapi.json, for a service at the address of the document. */
static int print_openapi(const srv_config *config) {
    srv_app app = {.config = config};
    srv_request req = {.app = &app, .arena = attn_arena_new(DOCUMENT_ROOM), .forwarded = true};
    bool ok = req.arena != NULL;
    srv_job_fields_make();
    if (ok) {
        srv_openapi(&req);
        ok = req.reply.status == 200 &&
             fwrite(req.reply.body, 1, req.reply.size, stdout) == req.reply.size &&
             fflush(stdout) == 0;
    }
    attn_arena_free(req.arena);
    if (!ok)
        fputs("attnd: openapi.json cannot be printed\n", stderr);
    return ok ? SRV_EXIT_OK : SRV_EXIT_RESOURCES;
}

static void print_ready(const srv_app *app, bool hello) {
    const char *url = srv_daemon_url(app->data);
    printf("attnd %s listening on %s (kernels %s, %zu worker%s%s%s)\n", attn_version(), url,
           attn_isa_name(attn_isa_current()), attn_pool_slots(app->pool),
           attn_plural(attn_pool_slots(app->pool)), app->ops ? ", operations on " : "",
           app->ops ? srv_daemon_url(app->ops) : "");
    if (hello)
        printf("try:\n  curl %s/v1/attention -d '{\"query\":[[1,0,0],[0,1,0]],"
               "\"key\":[[1,2,3],[4,5,6]],\"value\":[[0,1,0],[1,0,1]],\"is_causal\":true}'\n",
               url);
    fflush(stdout);
}

static void force_exit(int number) {
    (void)number;
    _exit(SRV_EXIT_FORCED);
}

#define LOOK_S 2 /* seconds between two calls of srv_app_look */

/* Waits until SIGTERM or SIGINT. SIGHUP makes the service read its files again. These signals are
 * blocked in all threads, and this function, on the main thread, receives them one at a time. */
static void wait_for_end(srv_app *app, const sigset_t *set) {
    const struct timespec look = {.tv_sec = LOOK_S};
    for (;;) {
        int number = sigtimedwait(set, NULL, &look);
        if (number == SIGTERM || number == SIGINT)
            return;
        if (number == SIGHUP) {
            srv_notify_reloading();
            srv_app_reload(app);
            srv_notify("READY=1");
        } else {
            srv_app_look(app);
        }
    }
}

static int serve(const srv_config *config, bool hello) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes must fail with EFBIG */
    srv_app app = {0};
    int code = srv_app_open(&app, config);
    if (!code) {
        srv_app_started(&app);
        print_ready(&app, hello);
        srv_notify("READY=1");
        wait_for_end(&app, &set);
        srv_notify("STOPPING=1");
        sigdelset(&set, SIGHUP);
        struct sigaction force = {.sa_handler = force_exit};
        sigaction(SIGTERM, &force, NULL);
        sigaction(SIGINT, &force, NULL);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    srv_app_close(&app);
    return code;
}

static int act(srv_config *config, command what) {
    srv_config_error err;
    switch (what) {
    case HELP:
        print_help();
        return SRV_EXIT_OK;
    case VERSION:
        printf("attnd %s\n", attn_version());
        return SRV_EXIT_OK;
    case PRINT_REFERENCE:
        srv_config_print_reference(stdout);
        return SRV_EXIT_OK;
    case PRINT_CONFIG:
        srv_config_print(config, stdout);
        return SRV_EXIT_OK;
    case PRINT_OPENAPI:
        return print_openapi(config);
    case HEALTHCHECK:
        return check_health(config);
    default:
        break;
    }
    if (!srv_config_resolve(config, &err)) {
        say(&err);
        return SRV_EXIT_USAGE;
    }
    if (what != CHECK_CONFIG)
        return serve(config, what == HELLO);
    return srv_app_check(config);
}

/* Opens /dev/null in place of closed standard streams. Otherwise a socket or a file could get the
 * number of standard error, and the log would be written there. */
static void open_standard_streams(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv) {
    srv_config config;
    srv_config_error err = {.memory = false};
    command what = RUN;
    int code;
    open_standard_streams();
    srv_mapped_start();
    srv_command_run *run = argc > 1 ? srv_command_find(argv[1]) : NULL;
    if (run)
        return run(argc - 1, argv + 1);
    srv_document_start();
    if (read_settings(&config, argc, argv, &what, &err))
        code = act(&config, what);
    else
        code = err.memory ? SRV_EXIT_RESOURCES : SRV_EXIT_USAGE;
    srv_config_close(&config);
    return code;
}
