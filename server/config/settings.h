/* The table of all settings. The members of srv_config and the rows of srv_settings (config.h) are
 * made from it. The JSON file, the environment and the command line are read by these rows. --help,
 * the limits of GET /version and config/README.md are made from them. Settings that are numbers are
 * limits.
 *
 *   TEXT(name, default, meaning)                        char * LIST(name, accepts, form, meaning)
 *   srv_texts; the default is an empty list.
 *                                                       `accepts` tests an entry, and `form` says
 *                                                       in errors what an entry must be
 *   CHOICE(name, default, words, meaning)               int, an index into `words` BOOL(name,
 *   default, meaning)                        bool INT, BYTES(name, default, least, most, meaning)
 *   int64_t; a text of BYTES may have a unit REAL(name, default, least, most, meaning)
 *   double */
#ifndef SRV_SETTINGS_H
#define SRV_SETTINGS_H

#define SRV_MOST 9007199254740992.0 /* 2^53: a double holds every integer up to it exactly */

#define SRV_SETTINGS(TEXT, LIST, CHOICE, BOOL, INT, BYTES, REAL)                                   \
    TEXT(listen, "127.0.0.1:8080",                                                                 \
         "Address of the service: ADDRESS:PORT, [IPv6]:PORT, *:PORT (all addresses) or "           \
         "unix:/path.")                                                                            \
    TEXT(ops_listen, "127.0.0.1:8081",                                                             \
         "Address of the operations port (/healthz, /readyz, /metrics, /version). Empty: there "   \
         "is none.")                                                                               \
    TEXT(socket_mode, "",                                                                          \
         "Mode of the unix sockets of listen and ops_listen as octal digits, such as 660: who "    \
         "may write may connect. Empty: as the umask of the process leaves it.")                   \
    TEXT(socket_group, "",                                                                         \
         "Group of these sockets, a name or a number. Empty: that of the process.")                \
    INT(workers, "0", 0, 1024,                                                                     \
        "Threads that compute. 0: as many as the affinity mask and the cgroup quota allow.")       \
    INT(requests_running, "0", 0, 1024,                                                            \
        "Requests that share the workers at a time. 0: twice the workers, at least 4.")            \
    INT(long_ms, "500", 1, 86400e3,                                                                \
        "A request is long if its predicted or measured computing time exceeds this.")             \
    REAL(long_share, "0.5", 0, 1,                                                                  \
         "Share of requests_running that long requests may have: at least one and, if there are "  \
         "two, at most all but one. The rest is for short requests.")                              \
    INT(queue_length, "256", 1, 1e6,                                                               \
        "Requests that may wait; further ones get 503 queue_full. Long bodies whose upload "       \
        "begins while there is room have a place too, at most as many again.")                     \
    INT(queue_target_ms, "0", 0, 86400e3,                                                          \
        "While the longest wait exceeds this, the newest requests are served first, and requests " \
        "that would miss their deadline are refused. 0: half of request_timeout_ms.")              \
    INT(request_timeout_ms, "60000", 1, 86400e3,                                                   \
        "Time limit of a request after its body has arrived; beyond it the answer is 504.")        \
    BYTES(max_body_bytes, "268435456", 1, SRV_MOST,                                                \
          "Largest request body; a larger one gets 413 before the upload.")                        \
    BYTES(max_request_bytes, "0", 0, SRV_MOST,                                                     \
          "Most working memory and reply of one request. 0: half of memory_bytes.")                \
    BYTES(memory_bytes, "0", 0, SRV_MOST,                                                          \
          "Memory of all requests together, at least 1048576. Bodies may use half of it. Beyond "  \
          "it the answer is 503 memory_budget. 0: half of RAM or of the cgroup limit, whichever "  \
          "is smaller.")                                                                           \
    REAL(max_cells, "4e10", 1, 1e18,                                                               \
         "Most attention cells that one request computes (batch x heads x queries x keys, "        \
         "without those that a causal mask, a window, a pattern or key_lengths lets it skip).")    \
    REAL(max_operations, "2e13", 1, 1e24,                                                          \
         "Most floating-point operations of one request; a multiply-add counts as two.")           \
    BYTES(runs_bytes, "0", 0, SRV_MOST,                                                            \
          "Size of all stored runs together. The least recently used is removed first, with API "  \
          "keys one of the key whose runs are largest. 0: a quarter of memory_bytes.")             \
    INT(runs_ttl_ms, "3600000", 1, 31536e6,                                                        \
        "Milliseconds for which a stored run is kept after its last use.")                         \
    TEXT(runs_dir, "",                                                                             \
         "Directory of stored runs, one safetensors file each; several daemons may share it. "     \
         "Empty: runs are kept in memory.")                                                        \
    BYTES(max_capture_bytes, "0", 0, SRV_MOST,                                                     \
          "Largest file that POST /v1/runs writes to runs_dir. It is not held in memory, so that " \
          "max_body_bytes does not apply. 0: runs_bytes, which it must not exceed.")               \
    INT(max_capture_sites, "4096", 1, 65536,                                                       \
        "Most attention sites of a stored run. Each takes a few KB of memory when the run is "     \
        "opened, and more when it is looked at.")                                                  \
    BYTES(max_capture_text_bytes, "16777216", 1024, 1073741824,                                    \
          "Largest JSON text that describes a stored run. Reading it takes several times as much " \
          "memory; 131,072 tokens are about 2 MB.")                                                \
    TEXT(captures_dir, "",                                                                         \
         "Directory whose files any client that may use the service can import by name (POST "     \
         "/v1/runs); needs runs_dir. Empty: files are only sent.")                                 \
    INT(models_count, "64", 0, 1e6, "Most models that POST /v1/models may make.")                  \
    BYTES(models_bytes, "0", 0, SRV_MOST,                                                          \
          "Size of these models together, and of those of other programs in models_dir that are "  \
          "in memory, with their mapped files; the least recently used of these leaves memory "    \
          "first. 0: an eighth of memory_bytes, at most 256 MiB.")                                 \
    TEXT(models_dir, "",                                                                           \
         "Directory of models to serve as /v1/models/NAME: NAME.safetensors, as attnd train "      \
         "writes them; NAME.gguf, or a folder NAME with config.json, model.safetensors and "       \
         "tokenizer.json, of other programs, opened on first use. Models made over HTTP are "      \
         "written there, if it can be written, and survive a restart. Empty: they are kept in "    \
         "memory.")                                                                                \
    TEXT(lessons_dir, "",                                                                          \
         "Directory of lessons ID.json that /v1/lessons and the page give beside the built-in "    \
         "ones; one of the same id takes its place. It is read at start. Empty: no others.")       \
    INT(jobs_count, "64", 0, 1e5,                                                                  \
        "Most jobs of POST /v1/jobs that are kept, whether they wait, run or have ended.")         \
    INT(jobs_running, "2", 1, 64,                                                                  \
        "Jobs that run at a time; together they compute on at most all workers but one.")          \
    BYTES(jobs_bytes, "0", 0, SRV_MOST,                                                            \
          "Memory of all running jobs together, which is part of memory_bytes; a job that does "   \
          "not fit yet waits. 0: a quarter of memory_bytes.")                                      \
    INT(jobs_steps, "1000000", 1, 1e9, "Most training steps of one job.")                          \
    INT(jobs_time_ms, "86400000", 1, 31536e6,                                                      \
        "Milliseconds that a job may run; then it ends with its best model.")                      \
    INT(jobs_nice, "15", 0, 19,                                                                    \
        "Priority of jobs as of nice(1): 19 is the lowest, and 0 is that of requests.")            \
    TEXT(jobs_dir, "",                                                                             \
         "Directory of jobs with their checkpoints and models, for one daemon, which continues "   \
         "them after a restart. Empty: jobs are kept in memory.")                                  \
    INT(async_ms, "2000", 0, 86400e3,                                                              \
        "With \"Prefer: respond-async\" a look at a run, or storing one, that is predicted to "    \
        "take longer than this is answered with a job; \"wait=N\" asks for another time, N "       \
        "seconds.")                                                                                \
    INT(async_idle_ms, "30000", 1, 86400e3,                                                        \
        "Such a job is cancelled when for so long nobody has followed its events or asked for "    \
        "it.")                                                                                     \
    INT(heartbeat_ms, "15000", 10, 86400e3,                                                        \
        "An event stream without news sends a comment after this time.")                           \
    INT(max_json_depth, "32", 4, 256, "Deepest nesting of a JSON body.")                           \
    BYTES(max_envelope_bytes, "1048576", 4096, 1073741824,                                         \
          "Most JSON of a body without its tensors; white space does not count.")                  \
    INT(max_inflate_ratio, "200", 1, 1e6,                                                          \
        "A compressed body may decode to at most so many times its size, beyond the first MiB.")   \
    BYTES(in_place_bytes, "16384", 0, 1048576,                                                     \
          "Requests with bodies up to this size may be computed directly on the HTTP thread.")     \
    BYTES(in_place_memory_bytes, "1048576", 65536, 67108864,                                       \
          "Most working memory of a request on the HTTP thread; a larger one goes to a worker.")   \
    LIST(cors_origins, srv_origin_is_possible,                                                     \
         "origins as browsers send them, \"https://example.org\" or \"http://localhost:8000\" "    \
         "(lower case, no path, no final slash, no usual port, no \"*\")",                         \
         "Origins whose pages may call, exactly as browsers send them (\"https://example.org\"). " \
         "None: CORS is off.")                                                                     \
    LIST(hosts, srv_origin_is_host,                                                                \
         "names in lower case with or without a port, \"attention.example.org\" or "               \
         "\"localhost:8443\", or \"*\" (no scheme, no path)",                                      \
         "Names by which browsers reach the service, besides loopback names and IP addresses: "    \
         "NAME (any port), NAME:PORT or * (any name). Pages of these hosts may call. Without API " \
         "keys a request for another name gets 421.")                                              \
    TEXT(keys_file, "",                                                                            \
         "File of API keys with a line [NAME:]KEY [admin] [concurrency=N] for each. It is read "   \
         "again when it changes and on SIGHUP. Empty: no key is needed.")                          \
    INT(key_requests, "0", 0, 1e6,                                                                 \
        "Requests of one API key at a time; further ones get 429 quota_exceeded. 0: any number "   \
        "may wait, and all but one of requests_running may run.")                                  \
    TEXT(tls_cert, "",                                                                             \
         "File of the certificate and its chain (PEM). With it the service speaks HTTPS, TLS 1.2 " \
         "or 1.3. It is read again when it changes and on SIGHUP. Empty: HTTP.")                   \
    TEXT(tls_key, "", "File of the certificate's private key (PEM, without a password).")          \
    CHOICE(isa, "auto", srv_isa_choices,                                                           \
           "Kernel table. auto: the one that ATTN_ISA in the environment names, or else the best " \
           "of this processor; requests of at most 8,192 multiply-adds then use ref.")             \
    CHOICE(log, "json", srv_log_choices,                                                           \
           "json: one line for each request and event on standard error. off: no log.")            \
    CHOICE(log_level, "info", srv_level_choices,                                                   \
           "info: all lines. warn: answers with status 5xx, and events that need attention. "      \
           "error: answers with status 500, and events that need attention at once.")              \
    INT(header_timeout_ms, "10000", 10, 86400e3,                                                   \
        "Time limit of a request's header after its first byte has arrived.")                      \
    INT(idle_timeout_s, "75", 1, 86400, "A connection without traffic is closed after this time.") \
    BYTES(min_rate_bytes, "16384", 1, SRV_MOST,                                                    \
          "Slowest upload or download in bytes a second, after a grace period of "                 \
          "header_timeout_ms.")                                                                    \
    INT(connections, "4096", 1, 1e6,                                                               \
        "Open connections. If all are taken, the one that has been idle longest is closed for a "  \
        "new one; if none is idle, new clients wait in the kernel.")                               \
    INT(connections_per_address, "0", 0, 1e6,                                                      \
        "Open connections of one client address; its longest idle one is closed for a new one. "   \
        "It does not apply to trusted_proxies and unix sockets. 0: half of connections.")          \
    LIST(trusted_proxies, srv_client_is_network,                                                   \
         "IP addresses, networks (\"10.0.0.0/8\", \"fd00::/8\") or \"unix\"",                      \
         "Addresses or networks (10.0.0.0/8) of proxies, or unix, whose X-Forwarded-For names "    \
         "the client. The log and, without API keys, the fair order of requests use that name.")   \
    BYTES(                                                                                         \
        connection_bytes, "28672", 8192, 16777216,                                                 \
        "Buffer of one connection. It bounds the header and the pieces in which a body arrives.")  \
    INT(drain_delay_ms, "0", 0, 86400e3,                                                           \
        "Time after SIGTERM in which /readyz is 503 and requests are still served, so that "       \
        "proxies stop sending. It must be longer than the interval of their checks.")              \
    INT(drain_ms, "30000", 0, 86400e3,                                                             \
        "Time for accepted requests after SIGTERM and drain_delay_ms; a request that still runs "  \
        "then is cancelled.")                                                                      \
    BOOL(half_close_is_gone, "true",                                                               \
         "A client that closes its sending side counts as gone, and its request is cancelled.")

#endif
