/* The table of all settings. Columns: key, kind, member of srv_config, default, minimum, maximum,
 * choices, whether GET /version shows it, and meaning (srv_setting in config.h). */
#include <string.h>

#include "config/config.h"
#include "config/nearest.h"

static const char *const log_choices[] = {"json", "off", NULL};
static const char *const level_choices[] = {"info", "warn", "error", NULL};
static const char *const isa_choices[] = {"auto", "ref", "avx2", "avx512", "amx", NULL};

#define AT(member) offsetof(srv_config, member)
#define MOST       9007199254740992.0 /* 2^53: all integers up to it are exact as doubles */

const srv_setting srv_settings[] = {
    {"listen", SRV_SET_STRING, AT(listen), "127.0.0.1:8080", 0, 0, NULL, false,
     "Address of the service: ADDRESS:PORT, [IPv6]:PORT, *:PORT (all addresses) or unix:/path."},
    {"ops_listen", SRV_SET_STRING, AT(ops_listen), "127.0.0.1:8081", 0, 0, NULL, false,
     "Address of the operations port (/healthz, /readyz, /metrics, /version). Empty: there is "
     "none."},
    {"socket_mode", SRV_SET_STRING, AT(socket_mode), "", 0, 0, NULL, false,
     "Mode of the unix sockets of listen and ops_listen as octal digits, such as 660: who may "
     "write may connect. Empty: as the umask of the process leaves it."},
    {"socket_group", SRV_SET_STRING, AT(socket_group), "", 0, 0, NULL, false,
     "Group of these sockets, a name or a number. Empty: that of the process."},
    {"workers", SRV_SET_INT, AT(workers), "0", 0, 1024, NULL, true,
     "Threads that compute. 0: as many as the affinity mask and the cgroup quota allow."},
    {"requests_running", SRV_SET_INT, AT(requests_running), "0", 0, 1024, NULL, true,
     "Requests that share the workers at a time. 0: twice the workers, at least 4."},
    {"long_ms", SRV_SET_INT, AT(long_ms), "500", 1, 86400e3, NULL, true,
     "A request is long if its predicted or measured computing time exceeds this."},
    {"long_share", SRV_SET_REAL, AT(long_share), "0.5", 0, 1, NULL, true,
     "Share of requests_running that long requests may have: at least one and, if there are "
     "two, at most all but one. The rest is for short requests."},
    {"queue_length", SRV_SET_INT, AT(queue_length), "256", 1, 1e6, NULL, true,
     "Requests that may wait; further ones get 503 queue_full. Long bodies whose upload begins "
     "while there is room have a place too, at most as many again."},
    {"queue_target_ms", SRV_SET_INT, AT(queue_target_ms), "0", 0, 86400e3, NULL, true,
     "While the longest wait exceeds this, the newest requests are served first, and requests "
     "that would miss their deadline are refused. 0: half of request_timeout_ms."},
    {"request_timeout_ms", SRV_SET_INT, AT(request_timeout_ms), "60000", 1, 86400e3, NULL, true,
     "Time limit of a request after its body has arrived; beyond it the answer is 504."},
    {"max_body_bytes", SRV_SET_BYTES, AT(max_body_bytes), "268435456", 1, MOST, NULL, true,
     "Largest request body; a larger one gets 413 before the upload."},
    {"max_request_bytes", SRV_SET_BYTES, AT(max_request_bytes), "0", 0, MOST, NULL, true,
     "Most working memory and reply of one request. 0: half of memory_bytes."},
    {"memory_bytes", SRV_SET_BYTES, AT(memory_bytes), "0", 0, MOST, NULL, true,
     "Memory of all requests together, at least 1048576. Bodies may use half of it. Beyond it "
     "the answer is 503 memory_budget. 0: half of RAM or of the cgroup limit, whichever is "
     "smaller."},
    {"max_cells", SRV_SET_REAL, AT(max_cells), "4e10", 1, 1e18, NULL, true,
     "Most attention cells that one request computes (batch x heads x queries x keys, without "
     "those "
     "that a causal mask, a window, a pattern or key_lengths lets it skip)."},
    {"max_operations", SRV_SET_REAL, AT(max_operations), "2e13", 1, 1e24, NULL, true,
     "Most floating-point operations of one request; a multiply-add counts as two."},
    {"runs_bytes", SRV_SET_BYTES, AT(runs_bytes), "0", 0, MOST, NULL, true,
     "Size of all stored runs together. The least recently used is removed first, with API "
     "keys one of the key whose runs are largest. 0: a quarter of memory_bytes."},
    {"runs_ttl_ms", SRV_SET_INT, AT(runs_ttl_ms), "3600000", 1, 31536e6, NULL, true,
     "Milliseconds for which a stored run is kept after its last use."},
    {"runs_dir", SRV_SET_STRING, AT(runs_dir), "", 0, 0, NULL, false,
     "Directory of stored runs, one safetensors file each; several daemons may share it. "
     "Empty: runs are kept in memory."},
    {"max_capture_bytes", SRV_SET_BYTES, AT(max_capture_bytes), "0", 0, MOST, NULL, true,
     "Largest file that POST /v1/runs writes to runs_dir. It is not held in memory, so that "
     "max_body_bytes does not apply. 0: runs_bytes, which it must not exceed."},
    {"max_capture_sites", SRV_SET_INT, AT(max_capture_sites), "4096", 1, 65536, NULL, true,
     "Most attention sites of a stored run. Each takes a few KB of memory when the run is opened, "
     "and more when it is looked at."},
    {"max_capture_text_bytes", SRV_SET_BYTES, AT(max_capture_text_bytes), "16777216", 1024,
     1073741824, NULL, true,
     "Largest JSON text that describes a stored run. Reading it takes several times as much "
     "memory; 131,072 tokens are about 2 MB."},
    {"captures_dir", SRV_SET_STRING, AT(captures_dir), "", 0, 0, NULL, false,
     "Directory whose files any client that may use the service can import by name (POST "
     "/v1/runs); needs runs_dir. Empty: files are only sent."},
    {"models_count", SRV_SET_INT, AT(models_count), "64", 0, 1e6, NULL, true,
     "Most models that POST /v1/models may make."},
    {"models_bytes", SRV_SET_BYTES, AT(models_bytes), "0", 0, MOST, NULL, true,
     "Size of these models together. 0: an eighth of memory_bytes, at most 256 MiB."},
    {"models_dir", SRV_SET_STRING, AT(models_dir), "", 0, 0, NULL, false,
     "Directory of models to serve, as attnd train writes them: NAME.safetensors is "
     "/v1/models/NAME. Models made over HTTP are written there, if it can be written, and survive "
     "a restart. Empty: they are kept in memory."},
    {"jobs_count", SRV_SET_INT, AT(jobs_count), "64", 0, 1e5, NULL, true,
     "Most jobs of POST /v1/jobs that are kept, whether they wait, run or have ended."},
    {"jobs_running", SRV_SET_INT, AT(jobs_running), "2", 1, 64, NULL, true,
     "Jobs that run at a time; together they compute on at most all workers but one."},
    {"jobs_bytes", SRV_SET_BYTES, AT(jobs_bytes), "0", 0, MOST, NULL, true,
     "Memory of all running jobs together, which is part of memory_bytes; a job that does not "
     "fit yet waits. 0: a quarter of memory_bytes."},
    {"jobs_steps", SRV_SET_INT, AT(jobs_steps), "1000000", 1, 1e9, NULL, true,
     "Most training steps of one job."},
    {"jobs_time_ms", SRV_SET_INT, AT(jobs_time_ms), "86400000", 1, 31536e6, NULL, true,
     "Milliseconds that a job may run; then it ends with its best model."},
    {"jobs_nice", SRV_SET_INT, AT(jobs_nice), "15", 0, 19, NULL, true,
     "Priority of jobs as of nice(1): 19 is the lowest, and 0 is that of requests."},
    {"jobs_dir", SRV_SET_STRING, AT(jobs_dir), "", 0, 0, NULL, false,
     "Directory of jobs with their checkpoints and models, for one daemon, which continues "
     "them after a restart. Empty: jobs are kept in memory."},
    {"async_ms", SRV_SET_INT, AT(async_ms), "2000", 0, 86400e3, NULL, true,
     "With \"Prefer: respond-async\" a look at a run, or storing one, that is predicted to take "
     "longer than this is answered with a job; \"wait=N\" asks for another time, N seconds."},
    {"async_idle_ms", SRV_SET_INT, AT(async_idle_ms), "30000", 1, 86400e3, NULL, true,
     "Such a job is cancelled when for so long nobody has followed its events or asked for it."},
    {"heartbeat_ms", SRV_SET_INT, AT(heartbeat_ms), "15000", 10, 86400e3, NULL, true,
     "An event stream without news sends a comment after this time."},
    {"max_json_depth", SRV_SET_INT, AT(max_json_depth), "32", 4, 256, NULL, true,
     "Deepest nesting of a JSON body."},
    {"max_envelope_bytes", SRV_SET_BYTES, AT(max_envelope_bytes), "1048576", 4096, 1073741824, NULL,
     true, "Most JSON of a body without its tensors; white space does not count."},
    {"max_inflate_ratio", SRV_SET_INT, AT(max_inflate_ratio), "200", 1, 1e6, NULL, true,
     "A compressed body may decode to at most so many times its size, beyond the first MiB."},
    {"in_place_bytes", SRV_SET_BYTES, AT(in_place_bytes), "16384", 0, 1048576, NULL, true,
     "Requests with bodies up to this size may be computed directly on the HTTP thread."},
    {"in_place_memory_bytes", SRV_SET_BYTES, AT(in_place_memory_bytes), "1048576", 65536, 67108864,
     NULL, true,
     "Most working memory of a request on the HTTP thread; a larger one goes to a worker."},
    {"cors_origins", SRV_SET_LIST, AT(cors_origins), "", 0, 0, NULL, false,
     "Origins whose pages may call, exactly as browsers send them (\"https://example.org\"). "
     "None: CORS is off."},
    {"hosts", SRV_SET_LIST, AT(hosts), "", 0, 0, NULL, false,
     "Names by which browsers reach the service, besides loopback names and IP addresses: NAME "
     "(any port), NAME:PORT or * (any name). Pages of these hosts may call. Without API keys a "
     "request for another name gets 421."},
    {"keys_file", SRV_SET_STRING, AT(keys_file), "", 0, 0, NULL, false,
     "File of API keys with a line [NAME:]KEY [admin] [concurrency=N] for each. It is read "
     "again when it changes and on SIGHUP. Empty: no key is needed."},
    {"key_requests", SRV_SET_INT, AT(key_requests), "0", 0, 1e6, NULL, true,
     "Requests of one API key at a time; further ones get 429 quota_exceeded. 0: any number "
     "may wait, and all but one of requests_running may run."},
    {"tls_cert", SRV_SET_STRING, AT(tls_cert), "", 0, 0, NULL, false,
     "File of the certificate and its chain (PEM). With it the service speaks HTTPS, TLS 1.2 "
     "or 1.3. It is read again when it changes and on SIGHUP. Empty: HTTP."},
    {"tls_key", SRV_SET_STRING, AT(tls_key), "", 0, 0, NULL, false,
     "File of the certificate's private key (PEM, without a password)."},
    {"isa", SRV_SET_CHOICE, AT(isa), "auto", 0, 0, isa_choices, false,
     "Kernel table. auto: the one that ATTN_ISA in the environment names, or else the best of "
     "this processor; requests of at most 8,192 multiply-adds then use ref."},
    {"log", SRV_SET_CHOICE, AT(log), "json", 0, 0, log_choices, false,
     "json: one line for each request and event on standard error. off: no log."},
    {"log_level", SRV_SET_CHOICE, AT(log_level), "info", 0, 0, level_choices, false,
     "info: all lines. warn: answers with status 5xx, and events that need attention. error: "
     "answers with status 500, and events that need attention at once."},
    {"header_timeout_ms", SRV_SET_INT, AT(header_timeout_ms), "10000", 10, 86400e3, NULL, true,
     "Time limit of a request's header after its first byte has arrived."},
    {"idle_timeout_s", SRV_SET_INT, AT(idle_timeout_s), "75", 1, 86400, NULL, true,
     "A connection without traffic is closed after this time."},
    {"min_rate_bytes", SRV_SET_BYTES, AT(min_rate_bytes), "16384", 1, MOST, NULL, true,
     "Slowest upload or download in bytes a second, after a grace period of header_timeout_ms."},
    {"connections", SRV_SET_INT, AT(connections), "4096", 1, 1e6, NULL, true,
     "Open connections. If all are taken, the one that has been idle longest is closed for a "
     "new one; if none is idle, new clients wait in the kernel."},
    {"connections_per_address", SRV_SET_INT, AT(connections_per_address), "0", 0, 1e6, NULL, true,
     "Open connections of one client address; its longest idle one is closed for a new one. It "
     "does not apply to trusted_proxies and unix sockets. 0: half of connections."},
    {"trusted_proxies", SRV_SET_LIST, AT(trusted_proxies), "", 0, 0, NULL, false,
     "Addresses or networks (10.0.0.0/8) of proxies, or unix, whose X-Forwarded-For names the "
     "client. The log and, without API keys, the fair order of requests use that name."},
    {"connection_bytes", SRV_SET_BYTES, AT(connection_bytes), "28672", 8192, 16777216, NULL, true,
     "Buffer of one connection. It bounds the header and the pieces in which a body arrives."},
    {"drain_delay_ms", SRV_SET_INT, AT(drain_delay_ms), "0", 0, 86400e3, NULL, true,
     "Time after SIGTERM in which /readyz is 503 and requests are still served, so that "
     "proxies stop sending. It must be longer than the interval of their checks."},
    {"drain_ms", SRV_SET_INT, AT(drain_ms), "30000", 0, 86400e3, NULL, true,
     "Time for accepted requests after SIGTERM and drain_delay_ms; a request that still runs "
     "then is cancelled."},
    {"half_close_is_gone", SRV_SET_BOOL, AT(half_close_is_gone), "true", 0, 1, NULL, true,
     "A client that closes its sending side counts as gone, and its request is cancelled."},
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
