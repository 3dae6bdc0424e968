// SPDX-License-Identifier: MIT OR Apache-2.0
/* MG, "multigrid": V-cycles for Poisson's equation on a periodic grid (section 2.2.2).
 *
 * The grid is halved along z, y and x, as there are ranks. Each rank has its part with a layer of its neighbours' points
 * around it, which they exchange after each change.
 */
#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS 8
#define CHARGES 10 /* of +1, and as many of -1 */
#define ITERATIONS 4

static const struct {
	int log_points; /* of an edge */
	double norm;
} classes[] = {
	{5, 0.5307707005734e-04},
	{7, 0.6467329375339e-05},
	{8, 0.2433365309069e-05},
};

/* The discrete Laplacian and the smoother of classes S, W and A, by the number of coordinates in which a point differs
 * from the centre (section 2.2.2). */
static const double laplacian[4] = {-8.0 / 3, 0, 1.0 / 6, 1.0 / 12};
static const double smoother[4] = {-3.0 / 8, 1.0 / 32, -1.0 / 64, 0};

/* Axes are x, y and z. */
struct domain {
	int parts[3];
	int at[3];        /* this rank's part */
	int neighbour[3]; /* with two parts, the same one on both sides */
	double *out, *in; /* of a face */
};

/* A grid of one size, as this rank has it: `n` points along each axis, and a layer around them. */
struct grid {
	int n[3];
	size_t row, plane, points;
	double *u, *r;
};

static size_t place(const struct grid *g, int x, int y, int z)
{
	return (size_t)z * g->plane + (size_t)y * g->row + (size_t)x;
}

/* Copies a face between a grid and a buffer, with the edges that it shares with other layers. */
static size_t copy_face(const struct grid *g, double *a, int axis, int at, double *buffer, int is_in)
{
	size_t step[3] = {1, g->row, g->plane};
	int one = axis == 0 ? 1 : 0, two = axis == 2 ? 1 : 2;
	size_t count = 0;

	for (int j = 0; j < g->n[two] + 2; j++) {
		double *line = a + (size_t)at * step[axis] + (size_t)j * step[two];

		for (int i = 0; i < g->n[one] + 2; i++, count++) {
			if (is_in)
				line[(size_t)i * step[one]] = buffer[count];
			else
				buffer[count] = line[(size_t)i * step[one]];
		}
	}
	return count;
}

/* Fills the layer around a grid. One axis after the other, so that corners arrive too. */
static void exchange(const struct domain *d, const struct grid *g, double *a)
{
	for (int axis = 0; axis < 3; axis++) {
		for (int upwards = 0; upwards < 2; upwards++) {
			int from = upwards ? g->n[axis] : 1, to = upwards ? 0 : g->n[axis] + 1;
			size_t count = copy_face(g, a, axis, from, d->out, 0);

			if (d->parts[axis] == 1) {
				copy_face(g, a, axis, to, d->out, 1);
				continue;
			}
			MPI_Sendrecv(d->out, (int)count, MPI_DOUBLE, d->neighbour[axis], upwards, d->in, (int)count,
				     MPI_DOUBLE, d->neighbour[axis], upwards, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			copy_face(g, a, axis, to, d->in, 1);
		}
	}
}

/* Sums of the points that differ from those of a line in one coordinate other than x, and in two. */
static void sum_around(const struct grid *g, const double *a, int y, int z, double *sides, double *corners)
{
	const double *line = a + place(g, 0, y, z);
	size_t row = g->row, plane = g->plane;

	for (int x = 0; x < g->n[0] + 2; x++, line++) {
		sides[x] = line[-(ptrdiff_t)row] + line[row] + line[-(ptrdiff_t)plane] + line[plane];
		corners[x] = *(line - row - plane) + *(line + row - plane) + *(line - row + plane) +
			     *(line + row + plane);
	}
}

/* r = v - A u. `v` may be `r`. */
static void residual(const struct domain *d, const struct grid *g, const double *u, const double *v, double *r,
		     double *sums)
{
	double *sides = sums, *corners = sums + g->row;

	for (int z = 1; z <= g->n[2]; z++) {
		for (int y = 1; y <= g->n[1]; y++) {
			size_t line = place(g, 0, y, z);

			sum_around(g, u, y, z, sides, corners);
			/* The Laplacian's second coefficient is 0. */
			for (int x = 1; x <= g->n[0]; x++)
				r[line + (size_t)x] =
					v[line + (size_t)x] - laplacian[0] * u[line + (size_t)x] -
					laplacian[2] * (corners[x] + sides[x - 1] + sides[x + 1]) -
					laplacian[3] * (corners[x - 1] + corners[x + 1]);
		}
	}
	exchange(d, g, r);
}

/* u = u + S r */
static void smooth(const struct domain *d, const struct grid *g, const double *r, double *u, double *sums)
{
	double *sides = sums, *corners = sums + g->row;

	for (int z = 1; z <= g->n[2]; z++) {
		for (int y = 1; y <= g->n[1]; y++) {
			size_t line = place(g, 0, y, z);

			sum_around(g, r, y, z, sides, corners);
			/* The smoother's last coefficient is 0. */
			for (int x = 1; x <= g->n[0]; x++)
				u[line + (size_t)x] +=
					smoother[0] * r[line + (size_t)x] +
					smoother[1] * (r[line + (size_t)x - 1] + r[line + (size_t)x + 1] + sides[x]) +
					smoother[2] * (corners[x] + sides[x - 1] + sides[x + 1]);
		}
	}
	exchange(d, g, u);
}

/* A coarse grid's r from a fine one's: a mean of 27 points with half the weight for each coordinate that differs. */
static void project(const struct domain *d, const struct grid *fine, const struct grid *coarse, double *sums)
{
	double *sides = sums, *corners = sums + fine->row;

	for (int z = 1; z <= coarse->n[2]; z++) {
		for (int y = 1; y <= coarse->n[1]; y++) {
			const double *line = fine->r + place(fine, 0, 2 * y, 2 * z);
			double *into = coarse->r + place(coarse, 0, y, z);

			sum_around(fine, fine->r, 2 * y, 2 * z, sides, corners);
			for (int x = 1; x <= coarse->n[0]; x++) {
				int c = 2 * x;

				into[x] = 0.5 * line[c] + 0.25 * (line[c - 1] + line[c + 1] + sides[c]) +
					  0.125 * (sides[c - 1] + sides[c + 1] + corners[c]) +
					  0.0625 * (corners[c - 1] + corners[c + 1]);
			}
		}
	}
	exchange(d, coarse, coarse->r);
}

/* Adds a coarse grid's u to a fine one's, by trilinear interpolation. The coarse one's layer is enough for the fine one's. */
static void interpolate(const struct grid *coarse, const struct grid *fine, double *sums)
{
	for (int z = 0; z < fine->n[2] + 2; z++) {
		for (int y = 0; y < fine->n[1] + 2; y++) {
			double *into = fine->u + place(fine, 0, y, z);
			const double *a = coarse->u + place(coarse, 0, y / 2, z / 2);
			size_t up_y = y % 2 ? coarse->row : 0, up_z = z % 2 ? coarse->plane : 0;

			for (int x = 0; x < coarse->n[0] + 2; x++)
				sums[x] = 0.25 * (a[x] + *(a + x + up_y) + *(a + x + up_z) + *(a + x + up_y + up_z));
			for (int x = 0; x < coarse->n[0] + 1; x++) {
				into[2 * x] += sums[x];
				into[2 * x + 1] += 0.5 * (sums[x] + sums[x + 1]);
			}
		}
	}
}

/* u = u + M r, the V-cycle (section 2.2.2), and r of it behind. */
static void cycle(const struct domain *d, struct grid *grids, int top, const double *v, double *sums)
{
	for (int level = top; level > 1; level--)
		project(d, &grids[level], &grids[level - 1], sums);
	memset(grids[1].u, 0, grids[1].points * sizeof(double));
	smooth(d, &grids[1], grids[1].r, grids[1].u, sums);
	for (int level = 2; level <= top; level++) {
		struct grid *g = &grids[level];

		if (level < top)
			memset(g->u, 0, g->points * sizeof(double));
		interpolate(&grids[level - 1], g, sums);
		residual(d, g, g->u, level < top ? g->r : v, g->r, sums);
		smooth(d, g, g->r, g->u, sums);
	}
	residual(d, &grids[top], grids[top].u, v, grids[top].r, sums);
}

static double norm(const struct grid *g, int top)
{
	double own = 0, all;

	for (int z = 1; z <= g->n[2]; z++)
		for (int y = 1; y <= g->n[1]; y++)
			for (int x = 1; x <= g->n[0]; x++)
				own += g->r[place(g, x, y, z)] * g->r[place(g, x, y, z)];
	MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sqrt(all / ldexp(1, 3 * top));
}

/* A random number and its point in the whole grid. */
struct charge {
	double value;
	double point;
};

/* Puts a number into a list of the largest, in falling order, if it is one of them. */
static void keep_largest(struct charge *list, struct charge given)
{
	int at = CHARGES - 1;

	if (given.value <= list[at].value)
		return;
	for (; at > 0 && list[at - 1].value < given.value; at--)
		list[at] = list[at - 1];
	list[at] = given;
}

/* The points of the largest of all ranks' numbers. */
static void largest_of_all(const struct npb_run *run, struct charge *list)
{
	struct charge all[NPB_MAX_RANKS * CHARGES];

	MPI_Allgather(list, 2 * CHARGES, MPI_DOUBLE, all, 2 * CHARGES, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int rank = 0; rank < run->ranks; rank++)
		for (int at = 0; at < CHARGES && rank != run->rank; at++)
			keep_largest(list, all[rank * CHARGES + at]);
}

static void charge_points(const struct domain *d, const struct grid *g, int top, const struct charge *list, double charge,
			  double *v)
{
	for (int at = 0; at < CHARGES; at++) {
		long long point = (long long)list[at].point;
		int is_here = 1, here[3];

		for (int axis = 0; axis < 3; axis++, point >>= top) {
			here[axis] = (int)(point & ((1 << top) - 1)) - d->at[axis] * g->n[axis];
			is_here = is_here && here[axis] >= 0 && here[axis] < g->n[axis];
		}
		if (is_here)
			v[place(g, here[0] + 1, here[1] + 1, here[2] + 1)] = charge;
	}
}

/* v: charges of +1 at the largest of the random numbers that fill the grid, of -1 at the smallest (section 2.2.2). */
static void make_charges(const struct npb_run *run, const struct domain *d, const struct grid *g, int top, double *v)
{
	struct charge largest[CHARGES], smallest[CHARGES];

	for (int at = 0; at < CHARGES; at++)
		largest[at] = smallest[at] = (struct charge){-1, -1};
	for (int z = 0; z < g->n[2]; z++) {
		for (int y = 0; y < g->n[1]; y++) {
			long long line = d->at[2] * g->n[2] + z;
			uint64_t state;

			line = (line << top) + d->at[1] * g->n[1] + y;
			line = (line << top) + d->at[0] * g->n[0];
			state = npb_random_after(NPB_SEED, (uint64_t)line);
			for (int x = 0; x < g->n[0]; x++) {
				double value = npb_random(&state);

				keep_largest(largest, (struct charge){value, (double)(line + x)});
				keep_largest(smallest, (struct charge){1 - value, (double)(line + x)});
			}
		}
	}
	largest_of_all(run, largest);
	largest_of_all(run, smallest);
	memset(v, 0, g->points * sizeof(double));
	charge_points(d, g, top, largest, 1, v);
	charge_points(d, g, top, smallest, -1, v);
	exchange(d, g, v);
}

/* Halves z first, as lines along x are what caches like to keep. */
static void divide(const struct npb_run *run, struct domain *d)
{
	int ranks = run->ranks, rank = run->rank, step = 1;

	for (int axis = 2; axis >= 0; axis--) {
		d->parts[axis] = ranks > 1 ? 2 : 1;
		d->at[axis] = ranks > 1 ? rank / step % 2 : 0;
		d->neighbour[axis] = ranks > 1 ? (d->at[axis] ? rank - step : rank + step) : rank;
		if (ranks > 1) {
			ranks /= 2;
			step *= 2;
		}
	}
}

void npb_mg(struct npb_run *run)
{
	int class = npb_class_index(run), top = classes[class].log_points;
	struct grid grids[MAX_LEVELS + 1] = {0}, *g = &grids[top];
	struct domain d;
	size_t edge = (1U << top) + 2;
	double *v, *sums = npb_alloc(2 * edge, sizeof(double)), begin, found = 0;

	divide(run, &d);
	d.out = npb_alloc(edge * edge, sizeof(double));
	d.in = npb_alloc(edge * edge, sizeof(double));
	for (int level = 1; level <= top; level++) {
		struct grid *each = &grids[level];

		for (int axis = 0; axis < 3; axis++)
			each->n[axis] = (1 << level) / d.parts[axis];
		each->row = (size_t)each->n[0] + 2;
		each->plane = each->row * ((size_t)each->n[1] + 2);
		each->points = each->plane * ((size_t)each->n[2] + 2);
		each->u = npb_alloc(each->points, sizeof(double));
		each->r = npb_alloc(each->points, sizeof(double));
	}
	v = npb_alloc(g->points, sizeof(double));
	make_charges(run, &d, g, top, v);
	/* The first cycle is to touch all memory, without the clock. */
	for (int round = 0; round < 2; round++) {
		memset(g->u, 0, g->points * sizeof(double));
		begin = npb_begin();
		residual(&d, g, g->u, v, g->r, sums);
		norm(g, top);
		for (int at = 0; at < (round == 0 ? 1 : ITERATIONS); at++)
			cycle(&d, grids, top, v, sums);
		found = norm(g, top);
		run->seconds = npb_elapsed(begin);
	}
	run->mops = 58.0 * ITERATIONS * ldexp(1, 3 * top) / run->seconds / 1e6;
	npb_check(run, "norm", found, classes[class].norm, 1e-8);
	for (int level = 1; level <= top; level++) {
		free(grids[level].u);
		free(grids[level].r);
	}
	free(v);
	free(sums);
	free(d.out);
	free(d.in);
}
