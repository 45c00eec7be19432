/* The life of an agent's process, of its workers, and of their job. */
#pragma once

#include "tests/sim/jobs.h"

/* A new process, by a clock of its own. */
void pod_start(struct pod *p);
/* The process ends; the daemon notices after `notice_ms`. */
void pod_end(struct pod *p, uint64_t notice_ms);
/* Its connection ends, and so does its agent. */
void pod_lose_connection(struct pod *p);

/* Does what is due: of its relay, its request, its answer, its workers, its agent. */
void pod_run(struct pod *p);
/* When that is next; UINT64_MAX: never. */
uint64_t pod_next_ms(const struct pod *p);

/* One pod more, if there is room. */
void job_scale_up(struct job *job);
void job_begin_again(struct job *job);
/* After each event: a close that the daemon had yet to judge has closed the run, or not. */
void job_note_close(struct job *job);
