/* Each waiting task is in two doubly linked lists in order of arrival: the list of all tasks, and
 * the list of its client's short or long tasks. The accounts of the clients with waiting tasks form
 * a ring.
 *
 * The accounts are a hash table with open addressing. The account of a client is one of PROBES
 * consecutive entries. If none of them is free, the client takes over the account of another client
 * that has no tasks and was unused for longest. If all of these clients have tasks, the client
 * shares the account of one of them. */
#include "load/waiting.h"

enum {
    NEWEST = 8,    /* a new run time has the weight 1 / NEWEST in the mean */
    INTERVALS = 4, /* the queue stands once the wait was above the target for target / INTERVALS */
    PROBES = 16,   /* entries of the hash table in which the account of a client may be */
};

void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns) {
    *list =
        (srv_waiting){.length = length, .threads = threads ? threads : 1, .target_ns = target_ns};
}

/* Updates `standing`. Called before each decision that depends on this member. */
static void update_standing(srv_waiting *list, int64_t now_ns) {
    if (!list->first || now_ns - list->first->since_ns <= list->target_ns) {
        list->above_ns = 0;
        list->standing = false;
    } else if (!list->above_ns) {
        list->above_ns = now_ns;
    } else if (now_ns - list->above_ns >= list->target_ns / INTERVALS) {
        list->standing = true;
    }
}

bool srv_waiting_promise(srv_waiting *list, srv_task *task) {
    if (list->count >= list->length || list->promises >= list->length)
        return false;
    list->promises += !task->promised;
    task->promised = true;
    return true;
}

void srv_waiting_forget(srv_waiting *list, srv_task *task) {
    list->promises -= task->promised;
    task->promised = false;
}

/* --- accounts --- */

static bool is_idle(const srv_account *a) {
    return !a->waiting && !a->running;
}

/* Returns the better of two accounts for a new client. An account that belongs to no client is
 * best, and an account without tasks is second best. Of two accounts without tasks, returns the one
 * that was unused for longer. If both have tasks, returns a. */
static srv_account *better_to_give(srv_account *a, srv_account *b) {
    if (!a->taken || !b->taken)
        return a->taken ? b : a;
    if (is_idle(a) != is_idle(b))
        return is_idle(a) ? a : b;
    return is_idle(b) && b->used_ns < a->used_ns ? b : a;
}

/* Returns the account of a client, which gets one if it has none. */
static srv_account *account_of(srv_waiting *list, uint64_t client) {
    const size_t start = (size_t)((client * 0x9e3779b97f4a7c15u) >> 32);
    srv_account *given = &list->accounts[start % SRV_ACCOUNTS];
    for (size_t i = 0; i < PROBES; i++) {
        srv_account *at = &list->accounts[(start + i) % SRV_ACCOUNTS];
        if (at->taken && at->client == client)
            return at;
        given = better_to_give(given, at);
    }
    if (!given->taken || is_idle(given))
        *given = (srv_account){.client = client, .taken = true};
    return given;
}

/* Charges an account for `ns` of processor time; a negative number is a refund. */
static void charge_account(srv_account *account, int64_t ns, int64_t now_ns) {
    account->credit_ns -= ns;
    account->used_ns = now_ns;
    if (account->credit_ns < -(int64_t)SRV_DEBT_NS)
        account->credit_ns = -(int64_t)SRV_DEBT_NS;
    if (account->credit_ns > SRV_QUANTUM_NS)
        account->credit_ns = SRV_QUANTUM_NS;
}

/* Reduces the debt of a client without tasks by the time since its last charge. Called when the
 * client sends a new task. */
static void forgive_debt(srv_account *account, int64_t now_ns) {
    const int64_t quiet = now_ns - account->used_ns;
    if (is_idle(account) && account->credit_ns < 0)
        account->credit_ns = quiet < -account->credit_ns ? account->credit_ns + quiet : 0;
}

void srv_waiting_charge(srv_waiting *list, uint64_t client, int64_t ns, int64_t now_ns) {
    srv_account *account = account_of(list, client);
    forgive_debt(account, now_ns);
    charge_account(account, ns, now_ns);
}

/* --- adding and removing tasks --- */

static void add_to_ring(srv_waiting *list, srv_account *a) {
    srv_account *next = list->rotation;
    if (!next) {
        a->next = a->previous = list->rotation = a;
        return;
    }
    a->next = next; /* the new client is the last one of the present round */
    a->previous = next->previous;
    a->previous->next = next->previous = a;
}

static void take_from_ring(srv_waiting *list, srv_account *a) {
    a->next->previous = a->previous;
    a->previous->next = a->next;
    if (list->rotation == a)
        list->rotation = a->next == a ? NULL : a->next;
}

/* Inserts the task into the list of all tasks, behind the tasks that arrived earlier. Except for
 * tasks that were put back, this is the end of the list. */
static void insert_by_time(srv_waiting *list, srv_task *task) {
    srv_task *before = list->last;
    while (before && before->since_ns > task->since_ns)
        before = before->previous;
    task->previous = before;
    task->next = before ? before->next : list->first;
    *(before ? &before->next : &list->first) = task;
    *(task->next ? &task->next->previous : &list->last) = task;
}

/* Inserts the task into the list of its client's short or long tasks, behind the tasks that arrived
 * earlier. */
static void insert_into_own_list(srv_account *a, srv_task *task) {
    struct srv_task_list *own = &a->tasks[task->is_long];
    srv_task *before = own->last;
    while (before && before->since_ns > task->since_ns)
        before = before->previous_own;
    task->previous_own = before;
    task->next_own = before ? before->next_own : own->first;
    *(before ? &before->next_own : &own->first) = task;
    *(task->next_own ? &task->next_own->previous_own : &own->last) = task;
}

static void insert_task(srv_waiting *list, srv_account *a, srv_task *task) {
    task->account = a;
    task->waiting = true;
    insert_by_time(list, task);
    insert_into_own_list(a, task);
    if (!a->waiting++)
        add_to_ring(list, a);
    list->count++;
}

void srv_waiting_take(srv_waiting *list, srv_task *task) {
    srv_account *a = task->account;
    struct srv_task_list *own = &a->tasks[task->is_long];
    *(task->previous ? &task->previous->next : &list->first) = task->next;
    *(task->next ? &task->next->previous : &list->last) = task->previous;
    *(task->previous_own ? &task->previous_own->next_own : &own->first) = task->next_own;
    *(task->next_own ? &task->next_own->previous_own : &own->last) = task->previous_own;
    task->next = task->previous = task->next_own = task->previous_own = NULL;
    task->waiting = false;
    if (!--a->waiting)
        take_from_ring(list, a);
    list->count--;
}

/* Returns the newest task of the client with the most waiting tasks, if that client has at least
 * two more than the client of `mine`; else NULL. */
static srv_task *newest_of_largest(const srv_waiting *list, const srv_account *mine) {
    srv_account *most = list->rotation, *a = most;
    if (!most)
        return NULL;
    while ((a = a->next) != list->rotation)
        most = a->waiting > most->waiting ? a : most;
    if (most->waiting < mine->waiting + 2)
        return NULL;
    srv_task *s = most->tasks[SRV_SHORT].last, *l = most->tasks[SRV_LONG].last;
    return !s || (l && l->since_ns > s->since_ns) ? l : s;
}

bool srv_waiting_has_room(srv_waiting *list, uint64_t client) {
    return list->count < list->length || newest_of_largest(list, account_of(list, client));
}

bool srv_waiting_add(srv_waiting *list, srv_task *task, int64_t now_ns, srv_task **out) {
    srv_account *a = account_of(list, task->client);
    *out = NULL;
    if (list->count >= list->length && !task->promised) {
        *out = newest_of_largest(list, a);
        if (!*out)
            return false;
        srv_waiting_take(list, *out);
    }
    srv_waiting_forget(list, task);
    forgive_debt(a, now_ns);
    charge_account(a, task->paid_ns, now_ns);
    task->since_ns = now_ns;
    insert_task(list, a, task);
    return true;
}

void srv_waiting_put_back(srv_waiting *list, srv_task *task) {
    task->is_long = true;
    insert_task(list, task->account, task);
}

/* --- choosing the next task --- */

/* Returns the task that the client would run next: its oldest, or in a standing queue its newest.
 * NULL: the client has no task that may run now, or already runs as many as it may. */
static srv_task *next_of_client(const srv_waiting *list, const srv_account *a, bool room_for_long) {
    srv_task *ends[SRV_LENGTHS];
    for (int i = 0; i < SRV_LENGTHS; i++)
        ends[i] = list->standing ? a->tasks[i].last : a->tasks[i].first;
    srv_task *task = ends[SRV_SHORT], *other = room_for_long ? ends[SRV_LONG] : NULL;
    if (!task || (other && (other->since_ns < task->since_ns) != list->standing))
        task = other;
    return task && task->most && a->running >= task->most ? NULL : task;
}

/* Adds to the credit of an account, up to SRV_QUANTUM_NS. */
static void add_credit(srv_account *a, int64_t ns) {
    a->credit_ns += ns;
    a->credit_ns = a->credit_ns < SRV_QUANTUM_NS ? a->credit_ns : SRV_QUANTUM_NS;
}

/* Goes through the ring once. Each client with a task that may run and without credit gets a
 * quantum; the first client whose credit is then positive is served, and its task is returned.
 * NULL: all clients are still in debt, and *least_debt is the smallest debt; or no task may run,
 * and *least_debt is -1. */
static srv_task *one_round(srv_waiting *list, bool room_for_long, int64_t *least_debt) {
    srv_account *a = list->rotation;
    *least_debt = -1;
    do {
        srv_task *task = next_of_client(list, a, room_for_long);
        if (task && a->credit_ns <= 0)
            add_credit(a, SRV_QUANTUM_NS);
        if (task && a->credit_ns > 0)
            return task;
        if (task && (*least_debt < 0 || -a->credit_ns < *least_debt))
            *least_debt = -a->credit_ns;
        a = a->next;
    } while (a != list->rotation);
    return NULL;
}

/* Gives each client the quanta of as many rounds as the client with the smallest debt needs, so
 * that the next round serves a client. Without this a debt of 60 s would take 600,000 rounds. */
static void skip_rounds(srv_waiting *list, bool room_for_long, int64_t least_debt) {
    const int64_t rounds = least_debt / SRV_QUANTUM_NS;
    srv_account *a = list->rotation;
    do {
        if (next_of_client(list, a, room_for_long))
            add_credit(a, rounds * SRV_QUANTUM_NS);
        a = a->next;
    } while (a != list->rotation);
}

srv_task *srv_waiting_next(srv_waiting *list, int64_t now_ns, bool room_for_long) {
    int64_t least_debt;
    update_standing(list, now_ns);
    if (!list->rotation)
        return NULL;
    srv_task *task = one_round(list, room_for_long, &least_debt);
    if (!task && least_debt < 0)
        return NULL;
    if (!task) {
        skip_rounds(list, room_for_long, least_debt);
        task = one_round(list, room_for_long, &least_debt);
    }
    list->rotation = task->account->next;
    srv_waiting_take(list, task);
    task->account->running++;
    return task;
}

srv_task *srv_waiting_take_late(srv_waiting *list, int64_t now_ns) {
    update_standing(list, now_ns);
    int64_t start_by = now_ns + (list->standing ? (int64_t)list->work_ns : 0);
    srv_task *late = NULL;
    for (srv_task *task = list->first, *next; task; task = next) {
        next = task->next;
        if (start_by <= task->deadline_ns)
            continue;
        srv_waiting_take(list, task);
        task->next = late;
        late = task;
    }
    return late;
}

void srv_waiting_done(srv_waiting *list, srv_account *account, int64_t ns, int64_t busy_ns,
                      int64_t paid_ns, int64_t now_ns) {
    list->work_ns += ((double)ns - list->work_ns) / (list->work_ns > 0 ? NEWEST : 1);
    account->running--;
    charge_account(account, busy_ns - paid_ns, now_ns);
}

int64_t srv_waiting_estimate(const srv_waiting *list) {
    return (int64_t)((double)(list->count + 1) * list->work_ns / (double)list->threads);
}
