/* Starts and stops the service. */
#ifndef SRV_APP_H
#define SRV_APP_H

#include "request/shared.h"

/* Starts the service in `app`, which the caller has set to zero. Returns 0, or an exit code after
 * one line on standard error. srv_app_close must be called in both cases. */
int srv_app_open(struct srv_app *app, const srv_config *config);
/* Reads the files that the settings name, as srv_app_open does, without starting the service.
 * Returns 0 or an exit code. */
int srv_app_check(const srv_config *config);
/* Reads keys_file, tls_cert, tls_key and models_dir again, after SIGHUP. An unreadable file changes
 * nothing. Successes and failures are logged. Main thread. */
void srv_app_reload(struct srv_app *app);
/* Reads keys_file, tls_cert and tls_key again if they have changed. Called every few seconds by the
 * main thread. */
void srv_app_look(struct srv_app *app);
/* Logs that the service has started. */
void srv_app_started(struct srv_app *app);
/* Stops the service: refuses new requests, finishes the accepted ones for at most drain_ms, and
 * frees all memory. */
void srv_app_close(struct srv_app *app);

#endif
