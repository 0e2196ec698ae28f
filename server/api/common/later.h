/* Long work as a job. If a request has the header "Prefer: respond-async" (RFC 7240) and its work
 * is predicted to take long, the route answers 202 with a job (jobs/job_look.c). The job makes a
 * new request and calls the handler of the route with it. Jobs do two kinds of work: they compute
 * answers about a stored run (stored/stored_api.h), and they store runs. */
#ifndef SRV_LATER_H
#define SRV_LATER_H

#include "jobs/jobs.h"

/* Returns whether the client prefers a job to waiting, and the predicted time of `operations`
 * weighted operations is longer than the client is willing to wait. */
bool srv_later_is_due(const srv_request *req, double operations);
/* Returns the query string of the request. Characters that are not allowed in a URL are
 * percent-encoded. Therefore the text is also valid in a JSON string. NULL: the text is too long
 * for a job, or memory ran out. */
const char *srv_later_query(srv_request *req);
/* Replies with a job. `order` describes the work of the job. */
void srv_later_reply(srv_request *req, const srv_job_order *order);
/* If the reply is the problem that the deadline has passed, adds advice on how to ask for a job. */
void srv_later_advise(srv_request *req);

/* Sets the empty reply of a job that has stored a run. */
void srv_later_stored(srv_request *req);

/* Replies with the description of a job (jobs_routes.c). false: a problem is set. */
bool srv_job_reply(srv_request *req, srv_job_entry *job, int status);

#endif
