/* The service's way up and its way down. */
#ifndef SRV_APP_H
#define SRV_APP_H

#include "request/shared.h"

/* Bring the service up in `app` (zeroed by the caller): kernels, pool, queue, both daemons. 0, or
 * an exit code with one line on stderr; srv_app_close is right in either case. */
int srv_app_open(struct srv_app *app, const srv_config *config);
/* Read the files that the settings name, as srv_app_open does, and no more. 0 or an exit code. */
int srv_app_check(const srv_config *config);
/* SIGHUP: read keys_file, tls_cert, tls_key and models_dir again. What cannot be read changes
 * nothing; either way the log says so. Main thread. */
void srv_app_reload(struct srv_app *app);
/* Every few seconds: the same for those files of them that have changed. Main thread. */
void srv_app_look(struct srv_app *app);
/* The service is up: the log says so. */
void srv_app_started(struct srv_app *app);
/* The one way down: refuse new work, finish what was accepted (at most drain_ms), free everything.
 */
void srv_app_close(struct srv_app *app);

#endif
