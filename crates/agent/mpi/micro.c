// SPDX-License-Identifier: MIT OR Apache-2.0
/* Microbenchmarks of MPI: messages between two ranks and between all, as the Intel MPI Benchmarks define them
 * (IMB-MPI1: PingPong, Sendrecv, Exchange, Allreduce, Alltoall, Barrier).
 *
 *   latlab-mpi-micro BYTES...
 *
 * Each pattern is repeated for a fixed time, between barriers. Before that, it runs once with contents that the receiver
 * knows, and all that was received is compared with them. A line for each pattern and size, and one for barriers:
 *   mpi-micro PATTERN bytes B ranks N repetitions R usec T check ok|wrong|none
 * T is of one repetition, and one way of a ping-pong.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a pattern is repeated for, at least. */
#define SECONDS 0.15
/* Repetitions that warm up; each batch behind them has twice as many as the one before. */
#define WARM_UP 8
/* The size of the last batch at least. */
#define MIN_BATCH 64
#define MAX_BYTES (16 << 20)

struct job {
	int rank, ranks;
	int left, right; /* neighbours in a ring */
	int bytes;
	size_t room;
	unsigned char *out, *in; /* of `bytes` for each rank, and for two neighbours at least */
};

/* A byte that tells who sent it to whom, and where in the message it stood. */
static unsigned char byte_of(int from, int to, int at)
{
	return (unsigned char)(at * 7 + from * 31 + to * 101 + 13);
}

static void fill(struct job *job, int block, int to)
{
	for (int at = 0; at < job->bytes; at++)
		job->out[(size_t)block * (size_t)job->bytes + (size_t)at] = byte_of(job->rank, to, at);
}

static int wrong_bytes(const struct job *job, int block, int from)
{
	int wrong = 0;

	for (int at = 0; at < job->bytes; at++)
		wrong += job->in[(size_t)block * (size_t)job->bytes + (size_t)at] != byte_of(from, job->rank, at);
	return wrong;
}

/* Between the first rank and the last, which is in another node; others wait. */
static void ping_pong(struct job *job)
{
	int last = job->ranks - 1;

	if (job->rank == 0) {
		MPI_Send(job->out, job->bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD);
		MPI_Recv(job->in, job->bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (job->rank == last) {
		MPI_Recv(job->in, job->bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(job->out, job->bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

static int check_ping_pong(struct job *job)
{
	int last = job->ranks - 1, peer = job->rank == 0 ? last : 0;

	if (job->rank != 0 && job->rank != last)
		return 0;
	fill(job, 0, peer);
	ping_pong(job);
	return wrong_bytes(job, 0, peer);
}

/* In a ring, to the right from the left. */
static void sendrecv(struct job *job)
{
	MPI_Sendrecv(job->out, job->bytes, MPI_BYTE, job->right, 0, job->in, job->bytes, MPI_BYTE, job->left, 0,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int check_sendrecv(struct job *job)
{
	fill(job, 0, job->right);
	sendrecv(job);
	return wrong_bytes(job, 0, job->left);
}

/* In a ring, with both neighbours at once. */
static void exchange(struct job *job)
{
	MPI_Request requests[4];

	MPI_Irecv(job->in, job->bytes, MPI_BYTE, job->left, 0, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(job->in + job->bytes, job->bytes, MPI_BYTE, job->right, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Isend(job->out, job->bytes, MPI_BYTE, job->right, 0, MPI_COMM_WORLD, &requests[2]);
	MPI_Isend(job->out + job->bytes, job->bytes, MPI_BYTE, job->left, 1, MPI_COMM_WORLD, &requests[3]);
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static int check_exchange(struct job *job)
{
	fill(job, 0, job->right);
	fill(job, 1, job->left);
	exchange(job);
	return wrong_bytes(job, 0, job->left) + wrong_bytes(job, 1, job->right);
}

static void allreduce(struct job *job)
{
	MPI_Allreduce(job->out, job->in, job->bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Sums of small whole numbers, which are exact. */
static int check_allreduce(struct job *job)
{
	double *out = (double *)job->out, *in = (double *)job->in;
	int count = job->bytes / (int)sizeof(double), wrong = 0;

	for (int at = 0; at < count; at++)
		out[at] = job->rank + at % 1000;
	allreduce(job);
	for (int at = 0; at < count; at++)
		wrong += in[at] != job->ranks * (job->ranks - 1) / 2 + job->ranks * (at % 1000);
	return wrong;
}

static void alltoall(struct job *job)
{
	MPI_Alltoall(job->out, job->bytes, MPI_BYTE, job->in, job->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int check_alltoall(struct job *job)
{
	int wrong = 0;

	for (int rank = 0; rank < job->ranks; rank++)
		fill(job, rank, rank);
	alltoall(job);
	for (int rank = 0; rank < job->ranks; rank++)
		wrong += wrong_bytes(job, rank, rank);
	return wrong;
}

static void barrier(struct job *job)
{
	(void)job;
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	void (*once)(struct job *job);
	int (*check)(struct job *job); /* the bytes that were received wrongly; none of what carries no bytes */
	int ways;      /* messages one after the other in a repetition */
	int has_bytes; /* whether it is repeated for each size */
} patterns[] = {
	{"ping-pong", ping_pong, check_ping_pong, 2, 1}, {"sendrecv", sendrecv, check_sendrecv, 1, 1},
	{"exchange", exchange, check_exchange, 1, 1},    {"allreduce", allreduce, check_allreduce, 1, 1},
	{"alltoall", alltoall, check_alltoall, 1, 1},    {"barrier", barrier, NULL, 1, 0},
};

/* The time of these repetitions, of the slowest rank. */
static double seconds_of(struct job *job, void (*once)(struct job *job), int repetitions)
{
	double begin, own, longest;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	for (int at = 0; at < repetitions; at++)
		once(job);
	own = MPI_Wtime() - begin;
	MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return longest;
}

/* The bytes that all ranks together received wrongly. */
static int wrong_of_all(struct job *job, size_t pattern)
{
	int wrong, all_wrong;

	memset(job->in, 0, job->room);
	wrong = patterns[pattern].check(job);
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return all_wrong;
}

static void measure(struct job *job, size_t pattern)
{
	const char *checked = "none";
	double seconds = 0;
	int repetitions = 0;

	if (patterns[pattern].check != NULL)
		checked = wrong_of_all(job, pattern) == 0 ? "ok" : "wrong";
	seconds_of(job, patterns[pattern].once, WARM_UP);
	/* The slowest rank's time is the same in all, so that all end after the same batch. An estimate from the first
	 * repetitions would be far off where a rank was not running just then. */
	for (int batch = 2 * WARM_UP; seconds < SECONDS || batch <= MIN_BATCH; batch *= 2) {
		seconds += seconds_of(job, patterns[pattern].once, batch);
		repetitions += batch;
	}
	if (job->rank == 0)
		printf("mpi-micro %s bytes %d ranks %d repetitions %d usec %.3f check %s\n", patterns[pattern].name,
		       patterns[pattern].has_bytes ? job->bytes : 0, job->ranks, repetitions,
		       seconds / repetitions / patterns[pattern].ways * 1e6, checked);
}

int main(int count, char **arguments)
{
	struct job job = {0};

	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	job.left = (job.rank + job.ranks - 1) % job.ranks;
	job.right = (job.rank + 1) % job.ranks;
	for (int at = 1; at < count; at++) {
		job.bytes = atoi(arguments[at]);
		if (job.ranks < 2 || job.bytes <= 0 || job.bytes > MAX_BYTES || job.bytes % (int)sizeof(double) != 0) {
			fprintf(stderr, "latlab-mpi-micro: two ranks or more, and sizes of whole doubles up to %d\n",
				MAX_BYTES);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		job.room = (size_t)job.bytes * (size_t)(job.ranks > 2 ? job.ranks : 2);
		job.out = malloc(job.room);
		job.in = malloc(job.room);
		if (job.out == NULL || job.in == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
		memset(job.out, 0, job.room);
		for (size_t pattern = 0; pattern < sizeof(patterns) / sizeof(patterns[0]); pattern++)
			if (patterns[pattern].has_bytes || at == 1)
				measure(&job, pattern);
		free(job.out);
		free(job.in);
	}
	MPI_Finalize();
	return 0;
}
