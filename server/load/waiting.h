/* The waiting list of the queue and its discipline, without threads, locks or a clock: the queue
 * (queue.h) calls it under its lock, tests with a simulated clock.
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
    srv_task *next, *previous; /* the list's, as the next seven */
    srv_task *next_own, *previous_own;
    srv_account *account;
    bool waiting, promised;
    int64_t since_ns;
    bool is_long;        /* it is known to take long */
    uint64_t client;     /* whose it is: any number that tells clients apart */
    size_t most;         /* so many tasks of its client run at a time; 0: any number */
    int64_t paid_ns;     /* what its client pays when it comes; the rest when it has run */
    int64_t deadline_ns; /* CLOCK_MONOTONIC */
    void (*work)(srv_task *task);
};

/* What a client waits for: short work, or what is known to be long. */
enum { SRV_SHORT, SRV_LONG, SRV_LENGTHS };

/* What a client has used and waits for. */
struct srv_account {
    uint64_t client;
    bool taken;
    int64_t credit_ns; /* negative: owed */
    int64_t used_ns;   /* when it was last charged */
    size_t waiting, running;
    struct srv_task_list {
        srv_task *first, *last;
    } tasks[SRV_LENGTHS];         /* in order of arrival */
    srv_account *next, *previous; /* the ring of those with waiting tasks */
};

enum { SRV_ACCOUNTS = 1024 }; /* clients beyond so many share accounts */
/* Credit of a round, and the most that anybody has: less than a task takes. */
#define SRV_QUANTUM_NS 100000
#define SRV_DEBT_NS    60000000000

typedef struct srv_waiting {
    srv_task *first, *last; /* in order of arrival */
    size_t count, length, threads;
    size_t promises;       /* to tasks that are on their way */
    int64_t target_ns;     /* of the longest wait */
    int64_t above_ns;      /* since when it is beyond the target; or 0 */
    bool standing;         /* the newest are served first */
    double work_ns;        /* how long a task runs: mean, the newest weigh most */
    srv_account *rotation; /* who is served next, in the ring of those who wait, or NULL */
    srv_account accounts[SRV_ACCOUNTS];
} srv_waiting;

/* Room for `length` tasks, which `threads` threads will run. */
void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns);
/* A place for a task that comes later, while there is one and fewer than `length` are promised: it
 * will find room even when the list has become full meanwhile, so the list never holds more than
 * twice its length. Others find as much room as without it: whoever is slow to come keeps nobody
 * out. false: none, the task may find the list full. */
bool srv_waiting_promise(srv_waiting *list, srv_task *task);
/* The task will not come. Without a promise nothing happens. */
void srv_waiting_forget(srv_waiting *list, srv_task *task);
/* Would a task of this client find room? In a full list it does when another client has at least
 * two tasks more than he: the newest of them then gives up its place. */
bool srv_waiting_has_room(srv_waiting *list, uint64_t client);
/* false: it finds no room, and has no promise. Otherwise *out is the task that gave up its place,
 * taken out, or NULL. */
bool srv_waiting_add(srv_waiting *list, srv_task *task, int64_t now_ns, srv_task **out);
/* A task that has begun to run waits again, as long as if it had never left, because it is long. */
void srv_waiting_put_back(srv_waiting *list, srv_task *task);
/* The task to run now, taken out, long ones only with `room_for_long`; NULL: none. Its account
 * counts it as running until srv_waiting_done. */
srv_task *srv_waiting_next(srv_waiting *list, int64_t now_ns, bool room_for_long);
void srv_waiting_take(srv_waiting *list, srv_task *task); /* take out this one, which waits */
/* Take out those whose deadline has passed, and while the queue is standing those that would miss
 * it; a list by `next`. */
srv_task *srv_waiting_take_late(srv_waiting *list, int64_t now_ns);
/* A task of the account has run for `ns`, and used `busy_ns` of processor time, of which its client
 * has paid `paid_ns`. */
void srv_waiting_done(srv_waiting *list, srv_account *account, int64_t ns, int64_t busy_ns,
                      int64_t paid_ns, int64_t now_ns);
/* A client has used `ns` of processor time outside of the list. Debts are bounded, and get less in
 * the time in which a client asks for nothing. */
void srv_waiting_charge(srv_waiting *list, uint64_t client, int64_t ns, int64_t now_ns);
/* How long a task that came now would wait, if served in order. */
int64_t srv_waiting_estimate(const srv_waiting *list);

#endif
