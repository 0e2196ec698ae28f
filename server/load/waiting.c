/* A doubly linked list in order of arrival, each client's own in the same order, a ring of the
 * clients, and the discipline over them (waiting.h). */
#include "load/waiting.h"

/* The weight of the newest run in the mean, and the part of the target that is the interval. */
enum { NEWEST = 8, INTERVALS = 4 };

void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns) {
    *list =
        (srv_waiting){.length = length, .threads = threads ? threads : 1, .target_ns = target_ns};
}

/* Is the queue standing? Looked at whenever something changes. */
static void look(srv_waiting *list, int64_t now_ns) {
    if (!list->first || now_ns - list->first->since_ns <= list->target_ns) {
        list->above_ns = 0;
        list->standing = false;
    } else if (!list->above_ns) {
        list->above_ns = now_ns;
    } else if (now_ns - list->above_ns >= list->target_ns / INTERVALS) {
        list->standing = true;
    }
}

bool srv_waiting_promise(srv_waiting *list, srv_job *job) {
    if (list->count >= list->length || list->promises >= list->length)
        return false;
    list->promises += !job->promised;
    job->promised = true;
    return true;
}

void srv_waiting_forget(srv_waiting *list, srv_job *job) {
    list->promises -= job->promised;
    job->promised = false;
}

/* --- in and out --- */

static void ring_in(srv_waiting *list, srv_account *a) {
    srv_account *turn = list->turn;
    if (!turn) {
        a->next = a->previous = list->turn = a;
        return;
    }
    a->next = turn; /* the last of this round */
    a->previous = turn->previous;
    a->previous->next = turn->previous = a;
}

static void ring_out(srv_waiting *list, srv_account *a) {
    a->next->previous = a->previous;
    a->previous->next = a->next;
    if (list->turn == a)
        list->turn = a->next == a ? NULL : a->next;
}

/* Behind all that came before it; nearly always behind the last. */
static void link_in(srv_waiting *list, srv_job *job) {
    srv_job *before = list->last;
    while (before && before->since_ns > job->since_ns)
        before = before->previous;
    job->previous = before;
    job->next = before ? before->next : list->first;
    *(before ? &before->next : &list->first) = job;
    *(job->next ? &job->next->previous : &list->last) = job;
}

static void link_own(srv_account *a, srv_job *job) {
    struct srv_job_list *own = &a->jobs[job->is_long];
    srv_job *before = own->last;
    while (before && before->since_ns > job->since_ns)
        before = before->previous_own;
    job->previous_own = before;
    job->next_own = before ? before->next_own : own->first;
    *(before ? &before->next_own : &own->first) = job;
    *(job->next_own ? &job->next_own->previous_own : &own->last) = job;
}

static void put_in(srv_waiting *list, srv_account *a, srv_job *job) {
    job->account = a;
    job->waiting = true;
    link_in(list, job);
    link_own(a, job);
    if (!a->waiting++)
        ring_in(list, a);
    list->count++;
}

void srv_waiting_take(srv_waiting *list, srv_job *job) {
    srv_account *a = job->account;
    struct srv_job_list *own = &a->jobs[job->is_long];
    *(job->previous ? &job->previous->next : &list->first) = job->next;
    *(job->next ? &job->next->previous : &list->last) = job->previous;
    *(job->previous_own ? &job->previous_own->next_own : &own->first) = job->next_own;
    *(job->next_own ? &job->next_own->previous_own : &own->last) = job->previous_own;
    job->next = job->previous = job->next_own = job->previous_own = NULL;
    job->waiting = false;
    if (!--a->waiting)
        ring_out(list, a);
    list->count--;
}

/* The newest job of the client with most jobs, if it has at least two more than this one. */
static srv_job *crowd_of(const srv_waiting *list, const srv_account *mine) {
    srv_account *most = list->turn, *a = most;
    if (!most)
        return NULL;
    while ((a = a->next) != list->turn)
        most = a->waiting > most->waiting ? a : most;
    if (most->waiting < mine->waiting + 2)
        return NULL;
    srv_job *s = most->jobs[SRV_SHORT].last, *l = most->jobs[SRV_LONG].last;
    return !s || (l && l->since_ns > s->since_ns) ? l : s;
}

bool srv_waiting_has_room(srv_waiting *list, uint64_t client) {
    return list->count < list->length || crowd_of(list, srv_account_of(&list->accounts, client));
}

bool srv_waiting_add(srv_waiting *list, srv_job *job, int64_t now_ns, srv_job **out) {
    srv_account *a = srv_account_of(&list->accounts, job->client);
    *out = NULL;
    if (list->count >= list->length && !job->promised) {
        *out = crowd_of(list, a);
        if (!*out)
            return false;
        srv_waiting_take(list, *out);
    }
    srv_waiting_forget(list, job);
    srv_account_come_back(a, now_ns);
    srv_account_charge(a, job->paid_ns, now_ns);
    job->since_ns = now_ns;
    put_in(list, a, job);
    return true;
}

void srv_waiting_put_back(srv_waiting *list, srv_job *job) {
    job->is_long = true;
    put_in(list, job->account, job);
}

/* --- whose turn it is --- */

/* What a client would run now; NULL: nothing may run. */
static srv_job *candidate(const srv_waiting *list, const srv_account *a, bool room_for_long) {
    srv_job *ends[SRV_LENGTHS];
    for (int i = 0; i < SRV_LENGTHS; i++)
        ends[i] = list->standing ? a->jobs[i].last : a->jobs[i].first;
    srv_job *job = ends[SRV_SHORT], *other = room_for_long ? ends[SRV_LONG] : NULL;
    if (!job || (other && (other->since_ns < job->since_ns) != list->standing))
        job = other;
    return job && job->most && a->running >= job->most ? NULL : job;
}

static void give(srv_account *a, int64_t ns) {
    a->credit_ns += ns;
    a->credit_ns = a->credit_ns < SRV_QUANTUM_NS ? a->credit_ns : SRV_QUANTUM_NS;
}

/* One round: whose turn comes gets a quantum if he has no credit, and runs a job if he has some
 * then. *least_debt: of those who stay without, or -1: nothing may run. */
static srv_job *one_round(srv_waiting *list, bool room_for_long, int64_t *least_debt) {
    srv_account *a = list->turn;
    *least_debt = -1;
    do {
        srv_job *job = candidate(list, a, room_for_long);
        if (job && a->credit_ns <= 0)
            give(a, SRV_QUANTUM_NS);
        if (job && a->credit_ns > 0)
            return job;
        if (job && (*least_debt < 0 || -a->credit_ns < *least_debt))
            *least_debt = -a->credit_ns;
        a = a->next;
    } while (a != list->turn);
    return NULL;
}

/* As many rounds at once as it takes until one of them has credit in the next. */
static void skip_rounds(srv_waiting *list, bool room_for_long, int64_t least_debt) {
    const int64_t rounds = least_debt / SRV_QUANTUM_NS;
    srv_account *a = list->turn;
    do {
        if (candidate(list, a, room_for_long))
            give(a, rounds * SRV_QUANTUM_NS);
        a = a->next;
    } while (a != list->turn);
}

srv_job *srv_waiting_next(srv_waiting *list, int64_t now_ns, bool room_for_long) {
    int64_t least_debt;
    look(list, now_ns);
    if (!list->turn)
        return NULL;
    srv_job *job = one_round(list, room_for_long, &least_debt);
    if (!job && least_debt < 0)
        return NULL;
    if (!job) {
        skip_rounds(list, room_for_long, least_debt);
        job = one_round(list, room_for_long, &least_debt);
    }
    list->turn = job->account->next;
    srv_waiting_take(list, job);
    job->account->running++;
    return job;
}

srv_job *srv_waiting_take_late(srv_waiting *list, int64_t now_ns) {
    look(list, now_ns);
    int64_t start_by = now_ns + (list->standing ? (int64_t)list->run_ns : 0);
    srv_job *late = NULL;
    for (srv_job *job = list->first, *next; job; job = next) {
        next = job->next;
        if (start_by <= job->deadline_ns)
            continue;
        srv_waiting_take(list, job);
        job->next = late;
        late = job;
    }
    return late;
}

void srv_waiting_ran(srv_waiting *list, srv_account *account, int64_t ns, int64_t busy_ns,
                     int64_t paid_ns, int64_t now_ns) {
    list->run_ns += ((double)ns - list->run_ns) / (list->run_ns > 0 ? NEWEST : 1);
    account->running--;
    srv_account_charge(account, busy_ns - paid_ns, now_ns);
}

int64_t srv_waiting_estimate(const srv_waiting *list) {
    return (int64_t)((double)(list->count + 1) * list->run_ns / (double)list->threads);
}
