/* Starts and stops the service. */
#ifndef SRV_APP_H
#define SRV_APP_H

#include "request/shared.h"

/* Starts the service in `app`, which the caller has set to zero. Returns 0. If it fails, prints one
 * line to standard error and returns an exit code (SRV_EXIT_*). The caller must call srv_app_close
 * in both cases. */
int srv_app_open(struct srv_app *app, const srv_config *config);
/* Checks the addresses of the settings and reads the files and directories that the settings name,
 * as srv_app_open does, without starting the service (--check-config). Returns 0 or an exit code.
 */
int srv_app_check(const srv_config *config);
/* Reads keys_file, tls_cert, tls_key and models_dir again. The main thread calls this after SIGHUP.
 * If a file cannot be used, the service continues with the contents that it read before. Successes
 * and failures are logged. */
void srv_app_reload(struct srv_app *app);
/* Reads keys_file, tls_cert and tls_key again if they have changed. The main thread calls this
 * every two seconds. */
void srv_app_look(struct srv_app *app);
/* Logs that the service has started. */
void srv_app_started(struct srv_app *app);
/* Stops the service: refuses new requests, lets the accepted ones finish for at most drain_ms, and
 * frees all memory. */
void srv_app_close(struct srv_app *app);

#endif
