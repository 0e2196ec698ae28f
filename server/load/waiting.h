/* The waiting list of the queue decides which task runs next. It has no threads, locks or clock:
 * the queue (queue.h) calls it under its lock, and tests call it with a simulated clock.
 *
 * Clients are served in rotation by deficit round robin (M. Shreedhar, G. Varghese, "Efficient Fair
 * Queuing Using Deficit Round Robin", IEEE/ACM Transactions on Networking 4(3), 1996) with
 * processor time as the size of a task. A task's time is known only when it has run, so a client
 * pays afterwards: one with credit may run a task, one without is passed over until the rounds have
 * given him some.
 *
 * Each client's tasks are served in order of arrival, as long as that works. When the longest wait
 * stays beyond a target for an interval, the queue is standing: whoever has waited longest is about
 * to miss his deadline, and serving in order would spend all work on answers that come too late.
 * Then the newest task of each client is served first, and those that could not finish in time are
 * dropped unserved, until the longest wait is below the target again (CoDel's test of a standing
 * queue: K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012).
 *
 * Tasks that are known to be long wait beside the others, and are served only while the caller has
 * room for long ones. */
#ifndef SRV_WAITING_H
#define SRV_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_account srv_account;
typedef struct srv_task srv_task;

struct srv_task {
    srv_task *next, *previous; /* used by the list, as are the next seven members */
    srv_task *next_own, *previous_own;
    srv_account *account;
    bool waiting, promised;
    int64_t since_ns;
    bool is_long;        /* the task is known to take long */
    uint64_t client;     /* a number that identifies the client */
    size_t most;         /* how many tasks of the client may run at the same time; 0: any number */
    int64_t paid_ns;     /* charge in advance; the rest is charged after the run */
    int64_t deadline_ns; /* CLOCK_MONOTONIC */
    void (*work)(srv_task *task);
};

/* Kinds of tasks: short ones, and those that are known to be long. */
enum { SRV_SHORT, SRV_LONG, SRV_LENGTHS };

/* The processor time that a client has used, and its tasks. */
struct srv_account {
    uint64_t client;
    bool taken;
    int64_t credit_ns; /* processor time; negative: a debt */
    int64_t used_ns;   /* time of the last charge */
    size_t waiting, running;
    struct srv_task_list {
        srv_task *first, *last;
    } tasks[SRV_LENGTHS];         /* in order of arrival */
    srv_account *next, *previous; /* neighbours in the ring of clients with waiting tasks */
};

enum { SRV_ACCOUNTS = 1024 }; /* number of accounts; more clients than this share accounts */
/* The credit that a client gets in each round, which is also the largest credit, and the largest
 * debt. */
#define SRV_QUANTUM_NS 100000
#define SRV_DEBT_NS    60000000000

typedef struct srv_waiting {
    srv_task *first, *last; /* in order of arrival */
    size_t count, length, threads;
    size_t promises;       /* slots reserved for tasks that will be added later */
    int64_t target_ns;     /* target for the longest wait */
    int64_t above_ns;      /* time since which the longest wait is above the target, or 0 */
    bool standing;         /* true: the newest tasks are served first */
    double work_ns;        /* mean run time of a task, in which the newest weigh most */
    srv_account *rotation; /* the client that is served next, in the ring, or NULL */
    srv_account accounts[SRV_ACCOUNTS];
} srv_waiting;

/* Prepares a list with room for `length` tasks, which `threads` threads will run. */
void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns);
/* Promises a slot to a task that will be added later. The task then finds room even if the list is
 * full, so the list may hold up to twice its length. The promise takes no room from other tasks.
 * Returns false if the list is full or `length` slots are promised already; the task may then find
 * no room. */
bool srv_waiting_promise(srv_waiting *list, srv_task *task);
/* Releases the promise to a task that will not be added. Does nothing without a promise. */
void srv_waiting_forget(srv_waiting *list, srv_task *task);
/* Returns whether a task of this client would find room. In a full list it does if another client
 * has at least two tasks more; the newest task of that client is then taken out. */
bool srv_waiting_has_room(srv_waiting *list, uint64_t client);
/* Adds a task. Returns false if there is no room and the task has no promise. Otherwise sets *out
 * to the task that was taken out to make room, or to NULL. */
bool srv_waiting_add(srv_waiting *list, srv_task *task, int64_t now_ns, srv_task **out);
/* Puts a running task back because it is long. Its wait counts from when it was first added. */
void srv_waiting_put_back(srv_waiting *list, srv_task *task);
/* Takes out and returns the task to run now, or NULL. Long tasks are only considered with
 * `room_for_long`. The account counts the task as running until srv_waiting_done. */
srv_task *srv_waiting_next(srv_waiting *list, int64_t now_ns, bool room_for_long);
void srv_waiting_take(srv_waiting *list, srv_task *task); /* takes out a waiting task */
/* Takes out the tasks whose deadline has passed and, while the queue is standing, those that would
 * miss their deadline. Returns them as a list linked by `next`. */
srv_task *srv_waiting_take_late(srv_waiting *list, int64_t now_ns);
/* Ends the run of a task, which took `ns` and used `busy_ns` of processor time. `paid_ns` of it was
 * charged in advance. */
void srv_waiting_done(srv_waiting *list, srv_account *account, int64_t ns, int64_t busy_ns,
                      int64_t paid_ns, int64_t now_ns);
/* Charges a client for `ns` of processor time that it used without the list. A debt is at most
 * SRV_DEBT_NS, and shrinks while the client sends nothing. */
void srv_waiting_charge(srv_waiting *list, uint64_t client, int64_t ns, int64_t now_ns);
/* Estimates how long a task that is added now would wait if tasks were served in order. */
int64_t srv_waiting_estimate(const srv_waiting *list);

#endif
