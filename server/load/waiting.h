/* The waiting list of the queue decides which task runs next. It has no threads, locks or clock:
 * the queue (queue.h) calls it under its lock, and tests call it with a simulated clock.
 *
 * Order of clients. Clients are served in rotation by deficit round robin (M. Shreedhar, G.
 * Varghese, "Efficient Fair Queuing Using Deficit Round Robin", IEEE/ACM Transactions on Networking
 * 4(3), 1996), with processor time as the size of a task. Each client has an account with a credit
 * of processor time. The time of a task is known only after it has run, so it is charged afterwards
 * and may turn the credit into a debt. In each round every client with waiting tasks gets a fixed
 * credit (the quantum). A client may run a task while its credit is positive; a client in debt is
 * passed over.
 *
 * Order of one client's tasks. Normally they are served in order of arrival. If the longest wait
 * stays above a target for some time, the queue is called standing: the tasks that have waited
 * longest are about to miss their deadlines, and serving in order would spend all work on answers
 * that come too late. In a standing queue the newest task of each client is served first, and tasks
 * that could not finish in time are dropped. This ends when the longest wait is below the target
 * again. (The test is that of CoDel: K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue
 * 10(5), 2012.)
 *
 * Long tasks. A task that was found to be long waits in a list of its own. The caller says whether
 * a long task may run now. */
#ifndef SRV_WAITING_H
#define SRV_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_account srv_account;
typedef struct srv_task srv_task;

/* A task. The caller sets the members from `client` on and sets the others to zero. */
struct srv_task {
    srv_task *next, *previous;         /* neighbours among all waiting tasks */
    srv_task *next_own, *previous_own; /* neighbours among the client's waiting tasks */
    srv_account *account;              /* the client's account */
    bool waiting;                      /* the task is in the list */
    bool promised;                     /* a place is reserved for the task (srv_waiting_promise) */
    int64_t since_ns;                  /* when the task was added */
    bool is_long;                      /* the task was put back because it is long */
    uint64_t client;                   /* number of the client (config/client.h) */
    size_t most;         /* largest number of running tasks of this client; 0: no limit */
    int64_t paid_ns;     /* processor time to charge when the task is added, before it runs */
    int64_t deadline_ns; /* on the clock of attn_now_ns */
    void (*work)(srv_task *task); /* runs the task on a request thread */
};

/* The two lists of a client's waiting tasks, by srv_task.is_long. */
enum { SRV_SHORT, SRV_LONG, SRV_LENGTHS };

/* A client's credit of processor time, and its waiting tasks. */
struct srv_account {
    uint64_t client;         /* number of the client */
    bool taken;              /* false: the account belongs to no client yet */
    int64_t credit_ns;       /* processor time; negative: a debt */
    int64_t used_ns;         /* when the account was last charged */
    size_t waiting, running; /* number of the client's tasks */
    struct srv_task_list {
        srv_task *first, *last;
    } tasks[SRV_LENGTHS];         /* in order of arrival */
    srv_account *next, *previous; /* neighbours in the ring of clients with waiting tasks */
};

enum { SRV_ACCOUNTS = 1024 };      /* number of accounts; more clients than this share some */
#define SRV_QUANTUM_NS 100000      /* credit of each round, and the largest credit: 0.1 ms */
#define SRV_DEBT_NS    60000000000 /* largest debt: 60 s */

typedef struct srv_waiting {
    srv_task *first, *last; /* all waiting tasks in order of arrival */
    size_t count, length;   /* number of waiting tasks, and its limit */
    size_t threads;         /* tasks that run at the same time, for srv_waiting_estimate */
    size_t promises;        /* places reserved for tasks that will be added later */
    int64_t target_ns;      /* target for the longest wait */
    int64_t above_ns;       /* when the longest wait rose above the target; 0: it is not above */
    bool standing;          /* the queue is standing: the newest tasks are served first */
    double work_ns;         /* running mean of the run times of tasks */
    srv_account *rotation;  /* where the next round begins in the ring; NULL: the ring is empty */
    srv_account accounts[SRV_ACCOUNTS];
} srv_waiting;

/* Prepares an empty list for at most `length` tasks, of which `threads` run at the same time. */
void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns);
/* Reserves a place for a task that will be added later ("promises" it). The task can then be added
 * even if the list is full; the list may therefore grow to twice its length. Reserved places do not
 * count against the length for other tasks. Returns false if the list is full or `length` places
 * are already reserved; the task may then find no place later. */
bool srv_waiting_promise(srv_waiting *list, srv_task *task);
/* Releases the reserved place of a task that will not be added, if the task has one. */
void srv_waiting_forget(srv_waiting *list, srv_task *task);
/* Returns whether a task of this client could be added now. In a full list, it can be added if
 * another client has at least two more waiting tasks than this one. The newest task of that client
 * would then be taken out. */
bool srv_waiting_has_room(srv_waiting *list, uint64_t client);
/* Adds a task. If the list is full and no place is reserved for the task, the newest task of
 * another client is taken out to make room, by the rule of srv_waiting_has_room, and returned in
 * *out; otherwise *out is NULL. Returns false if the list is full and no task can be taken out. */
bool srv_waiting_add(srv_waiting *list, srv_task *task, int64_t now_ns, srv_task **out);
/* Puts a running task back into the list as a long task. It keeps the time at which it was first
 * added. */
void srv_waiting_put_back(srv_waiting *list, srv_task *task);
/* Takes the task to run now out of the list; NULL: none may run. `room_for_long` says whether a
 * long task may run now. The client's account counts the task as running until srv_waiting_done. */
srv_task *srv_waiting_next(srv_waiting *list, int64_t now_ns, bool room_for_long);
void srv_waiting_take(srv_waiting *list, srv_task *task); /* takes out a waiting task */
/* Takes out the tasks whose deadline has passed and, while the queue is standing, those that would
 * miss their deadline if they took the mean run time. Returns them as a list linked by `next`. */
srv_task *srv_waiting_take_late(srv_waiting *list, int64_t now_ns);
/* Ends the run of a task, which took `ns` and used `busy_ns` of processor time on all threads. The
 * account is charged for busy_ns - paid_ns, because `paid_ns` was charged when the task was added.
 */
void srv_waiting_done(srv_waiting *list, srv_account *account, int64_t ns, int64_t busy_ns,
                      int64_t paid_ns, int64_t now_ns);
/* Charges a client for `ns` of processor time that was used for it outside of the list. A debt is
 * at most SRV_DEBT_NS, and it shrinks while the client sends nothing. */
void srv_waiting_charge(srv_waiting *list, uint64_t client, int64_t ns, int64_t now_ns);
/* Estimates how long a task that is added now would wait if all tasks were served in order of
 * arrival, in nanoseconds. */
int64_t srv_waiting_estimate(const srv_waiting *list);

#endif
