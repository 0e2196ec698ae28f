/* A body that is not kept in memory. Its bytes go to an intake piece by piece as they arrive, for
 * example into a file.
 *
 * A route may have a function that makes an intake for a request (srv_route.intake), on the HTTP
 * thread before the body is read. req->intake then owns the intake, and req->body stays empty. The
 * handler takes the intake over by setting req->intake to NULL. If it does not, because the body
 * was refused or did not arrive completely, server/http calls `drop`. */
#ifndef SRV_INTAKE_H
#define SRV_INTAKE_H

#include "request/request.h"

struct srv_intake {
    /* Takes a piece of the body. Runs on the HTTP thread and must not wait. If there would be no
     * room for another piece, it calls `suspend`, and some thread calls `resume` when there is room
     * again. After `suspend`, `take` is still called with the bytes that libmicrohttpd has already
     * received. Together with the present piece, these are at most connection_bytes. false: the
     * piece was not taken, and a problem is set. */
    bool (*take)(srv_intake *intake, srv_request *req, const char *data, size_t size);
    void (*drop)(srv_intake *intake); /* discards what was taken; must not wait */
    uint64_t most;                    /* largest body that is accepted, in bytes */
    const char *setting;              /* name of the setting that bounds `most`, for problems */
    size_t memory;                    /* largest memory of the intake in bytes */

    /* server/http sets these three members. The intake passes `sender` to both functions. It calls
     * `suspend` only from `take`. `suspend` returns false if the connection cannot be suspended,
     * because the service is shutting down. After each call that returned true the intake calls
     * `resume` once, on any thread. It holds a lock during both calls, so that `resume` does not
     * begin before `suspend` has returned. */
    bool (*suspend)(void *sender);
    void (*resume)(void *sender);
    void *sender;
};

#endif
