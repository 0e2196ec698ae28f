/* One thread that looks after what the service keeps, four times a second: runs that have expired
 * go, streams of jobs say that they are alive, and memory that the library keeps goes back. */
#ifndef SRV_HOUSEKEEPING_H
#define SRV_HOUSEKEEPING_H

struct srv_app; /* request/shared.h */

typedef struct srv_housekeeping srv_housekeeping;

/* The app's stores must be open, and stay so until the stop. NULL: out of memory or threads. */
srv_housekeeping *srv_housekeeping_start(struct srv_app *app);
void srv_housekeeping_stop(srv_housekeeping *housekeeping); /* waits for its end; NULL is fine */

#endif
