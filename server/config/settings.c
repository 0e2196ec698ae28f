/* The table of settings. */
#include <string.h>

#include "config/config.h"
#include "config/nearest.h"

static const char *const log_choices[] = {"json", "off", NULL};
static const char *const level_choices[] = {"info", "warn", "error", NULL};
static const char *const isa_choices[] = {"auto", "ref", "avx2", "avx512", "amx", NULL};

#define AT(member) offsetof(srv_config, member)
#define MOST       9007199254740992.0 /* 2^53: every number of the table is exact as a double */

const srv_setting srv_settings[] = {
    {"listen", SRV_SET_STRING, AT(listen), "127.0.0.1:8080", 0, 0, NULL, false,
     "address of the service: ADDRESS:PORT, [IPv6]:PORT, *:PORT (all addresses) or unix:/path"},
    {"ops_listen", SRV_SET_STRING, AT(ops_listen), "127.0.0.1:8081", 0, 0, NULL, false,
     "address of the operations port (/healthz, /readyz, /metrics, /version); empty: off"},
    {"workers", SRV_SET_INT, AT(workers), "0", 0, 1024, NULL, true,
     "slots of the worker pool; 0: the processors of the affinity mask and the cgroup quota"},
    {"requests_running", SRV_SET_INT, AT(requests_running), "0", 0, 1024, NULL, true,
     "requests that take turns on the workers; 0: twice the workers, at least 4"},
    {"long_ms", SRV_SET_INT, AT(long_ms), "500", 1, 86400e3, NULL, true,
     "a request whose work is predicted to take longer, or has taken longer, is long"},
    {"long_share", SRV_SET_REAL, AT(long_share), "0.5", 0, 1, NULL, true,
     "part of requests_running that long requests may have, one at least and, where there are two, "
     "all but one at most; the others are for short ones"},
    {"queue_length", SRV_SET_INT, AT(queue_length), "256", 1, 1e6, NULL, true,
     "requests that may wait; beyond it 503 queue_full. Long bodies that begin to come in while "
     "there is room, as many again at most, have a place"},
    {"queue_target_ms", SRV_SET_INT, AT(queue_target_ms), "0", 0, 86400e3, NULL, true,
     "while requests wait for longer than this, the newest are served first and those that would "
     "miss their deadline are refused; 0: half of request_timeout_ms"},
    {"request_timeout_ms", SRV_SET_INT, AT(request_timeout_ms), "60000", 1, 86400e3, NULL, true,
     "time for a request once its body is here; beyond it 504"},
    {"max_body_bytes", SRV_SET_BYTES, AT(max_body_bytes), "268435456", 1, MOST, NULL, true,
     "largest request body; beyond it 413 before the upload"},
    {"max_request_bytes", SRV_SET_BYTES, AT(max_request_bytes), "0", 0, MOST, NULL, true,
     "largest working memory and reply of one request; 0: half of memory_bytes"},
    {"memory_bytes", SRV_SET_BYTES, AT(memory_bytes), "0", 0, MOST, NULL, true,
     "memory of all requests together, bodies at most half of it; beyond it 503 memory_budget; at "
     "least 1048576; 0: half of the smaller of RAM and cgroup limit"},
    {"max_cells", SRV_SET_REAL, AT(max_cells), "4e10", 1, 1e18, NULL, true,
     "most attention cells (batch x heads x queries x keys) of one request"},
    {"max_operations", SRV_SET_REAL, AT(max_operations), "2e13", 1, 1e24, NULL, true,
     "most floating-point operations of one request, a multiply-add counted as two"},
    {"runs_bytes", SRV_SET_BYTES, AT(runs_bytes), "0", 0, MOST, NULL, true,
     "all stored runs together; the least recently used go first, with keys those of the key that "
     "has most; 0: a quarter of memory_bytes"},
    {"runs_ttl_s", SRV_SET_INT, AT(runs_ttl_s), "3600", 1, 31536000, NULL, true,
     "how long a stored run is kept after its last use, seconds"},
    {"runs_dir", SRV_SET_STRING, AT(runs_dir), "", 0, 0, NULL, false,
     "directory of stored runs, one safetensors file each, which several daemons may share; empty: "
     "in memory"},
    {"models_count", SRV_SET_INT, AT(models_count), "64", 0, 1e6, NULL, true,
     "most models made by POST /v1/models"},
    {"models_bytes", SRV_SET_BYTES, AT(models_bytes), "0", 0, MOST, NULL, true,
     "those models all together; 0: an eighth of memory_bytes, "
     "at most 256 MiB"},
    {"models_dir", SRV_SET_STRING, AT(models_dir), "", 0, 0, NULL, false,
     "directory of models to serve, the files of attnd train: NAME.safetensors is /v1/models/NAME; "
     "empty: only those that come with the service"},
    {"jobs_count", SRV_SET_INT, AT(jobs_count), "64", 0, 1e5, NULL, true,
     "most jobs of POST /v1/jobs that are kept: waiting, running and ended"},
    {"jobs_running", SRV_SET_INT, AT(jobs_running), "2", 1, 64, NULL, true,
     "jobs that run at a time; together they compute on at most all workers but one"},
    {"jobs_bytes", SRV_SET_BYTES, AT(jobs_bytes), "0", 0, MOST, NULL, true,
     "memory of running jobs all together, out of memory_bytes; what does not fit yet waits; 0: a "
     "quarter of memory_bytes"},
    {"jobs_steps", SRV_SET_INT, AT(jobs_steps), "1000000", 1, 1e9, NULL, true,
     "most training steps of one job"},
    {"jobs_time_s", SRV_SET_INT, AT(jobs_time_s), "86400", 1, 31536000, NULL, true,
     "time that a job may run, seconds; then it ends with its best model"},
    {"jobs_nice", SRV_SET_INT, AT(jobs_nice), "15", 0, 19, NULL, true,
     "priority of jobs beside requests, as of nice(1): 19 is the lowest, 0 the same as theirs"},
    {"jobs_dir", SRV_SET_STRING, AT(jobs_dir), "", 0, 0, NULL, false,
     "directory of jobs, their checkpoints and models, of one daemon: the next start goes on with "
     "them; empty: in memory"},
    {"heartbeat_ms", SRV_SET_INT, AT(heartbeat_ms), "15000", 10, 86400e3, NULL, true,
     "an event stream that has nothing to say sends a comment after this"},
    {"max_json_depth", SRV_SET_INT, AT(max_json_depth), "32", 4, 256, NULL, true,
     "deepest nesting of a JSON body"},
    {"max_envelope_bytes", SRV_SET_BYTES, AT(max_envelope_bytes), "1048576", 4096, 1073741824, NULL,
     true, "most JSON of a body beside its tensors, counted without blanks"},
    {"max_inflate_ratio", SRV_SET_INT, AT(max_inflate_ratio), "200", 1, 1e6, NULL, true,
     "how many times its size a compressed body may decode to, beyond the first MiB"},
    {"in_place_bytes", SRV_SET_BYTES, AT(in_place_bytes), "16384", 0, 1048576, NULL, true,
     "bodies up to this size may run at once on the HTTP thread"},
    {"in_place_memory_bytes", SRV_SET_BYTES, AT(in_place_memory_bytes), "1048576", 65536, 67108864,
     NULL, true, "working memory of a request on the HTTP thread; beyond it a worker takes over"},
    {"cors_origins", SRV_SET_LIST, AT(cors_origins), "", 0, 0, NULL, false,
     "origins that browsers may call from, exact (\"https://example.org\"); none: CORS is off"},
    {"hosts", SRV_SET_LIST, AT(hosts), "", 0, 0, NULL, false,
     "names by which browsers reach the service, beside loopback names and IP addresses: NAME (any "
     "port) or NAME:PORT; their pages are its own, and without keys other names are 421; *: any"},
    {"keys_file", SRV_SET_STRING, AT(keys_file), "", 0, 0, NULL, false,
     "file of API keys, [NAME:]KEY [admin] [concurrency=N] a line; read again when it changes and "
     "on SIGHUP; empty: none are asked for"},
    {"key_requests", SRV_SET_INT, AT(key_requests), "0", 0, 1e6, NULL, true,
     "requests of one API key at a time; beyond it 429 quota_exceeded; 0: any number may wait, and "
     "all but one of requests_running run at a time"},
    {"tls_cert", SRV_SET_STRING, AT(tls_cert), "", 0, 0, NULL, false,
     "file of the certificate and its chain (PEM): the service speaks HTTPS, TLS 1.2 or 1.3; read "
     "again when it changes and on SIGHUP; empty: HTTP"},
    {"tls_key", SRV_SET_STRING, AT(tls_key), "", 0, 0, NULL, false,
     "file of the certificate's private key (PEM, no password)"},
    {"isa", SRV_SET_CHOICE, AT(isa), "auto", 0, 0, isa_choices, false,
     "kernel table: auto (the environment's ATTN_ISA, else the best of this processor) or a name"},
    {"log", SRV_SET_CHOICE, AT(log), "json", 0, 0, log_choices, false,
     "json: one line a request or event on standard error; off: none"},
    {"log_level", SRV_SET_CHOICE, AT(log_level), "info", 0, 0, level_choices, false,
     "which lines of the log are written: info (all), warn (answers of 5xx and events that need "
     "attention) or error (answers of 500 and events that need it now)"},
    {"header_timeout_ms", SRV_SET_INT, AT(header_timeout_ms), "10000", 10, 86400e3, NULL, true,
     "time for a request's header once its first byte has come"},
    {"idle_timeout_s", SRV_SET_INT, AT(idle_timeout_s), "75", 1, 86400, NULL, true,
     "a connection without traffic is closed after this"},
    {"min_rate_bytes", SRV_SET_BYTES, AT(min_rate_bytes), "16384", 1, MOST, NULL, true,
     "slowest upload or download, bytes a second, after a grace of header_timeout_ms"},
    {"connections", SRV_SET_INT, AT(connections), "4096", 1, 1e6, NULL, true,
     "open connections; when all are taken the one that has been idle for longest is closed, and "
     "while none is idle further clients wait in the kernel"},
    {"connections_per_address", SRV_SET_INT, AT(connections_per_address), "0", 0, 1e6, NULL, true,
     "of them those of one client's address; for a further one the address' longest idle one is "
     "closed. Not of trusted_proxies and unix sockets; 0: half of connections"},
    {"trusted_proxies", SRV_SET_LIST, AT(trusted_proxies), "", 0, 0, NULL, false,
     "addresses of proxies, networks (10.0.0.0/8) or unix, whose X-Forwarded-For names the client: "
     "for the log, and for taking turns where there are no keys"},
    {"connection_bytes", SRV_SET_BYTES, AT(connection_bytes), "28672", 8192, 16777216, NULL, true,
     "buffer of one connection: bounds the header, and the piece in which a body arrives"},
    {"drain_delay_ms", SRV_SET_INT, AT(drain_delay_ms), "0", 0, 86400e3, NULL, true,
     "time after SIGTERM in which /readyz is 503 already and everything is still served, so that "
     "proxies turn away first: longer than their checks take to see it"},
    {"drain_ms", SRV_SET_INT, AT(drain_ms), "30000", 0, 86400e3, NULL, true,
     "time for accepted requests after SIGTERM and drain_delay_ms; what then still runs is "
     "cancelled"},
    {"half_close_is_gone", SRV_SET_BOOL, AT(half_close_is_gone), "true", 0, 1, NULL, true,
     "a client that closes its sending side has left and its request is cancelled"},
    {NULL, SRV_SET_STRING, 0, NULL, 0, 0, NULL, false, NULL},
};

const srv_setting *srv_setting_find(const char *key) {
    for (const srv_setting *row = srv_settings; row->key; row++)
        if (!strcmp(row->key, key))
            return row;
    return NULL;
}

const char *srv_setting_nearest(const char *key) {
    const char *names[sizeof srv_settings / sizeof *srv_settings];
    size_t count = 0;
    for (const srv_setting *row = srv_settings; row->key; row++)
        names[count++] = row->key;
    return srv_nearest(key, names, count);
}
