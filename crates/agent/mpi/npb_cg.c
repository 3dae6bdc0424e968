// SPDX-License-Identifier: MIT OR Apache-2.0
/* CG, "conjugate gradient": the largest eigenvalue of a sparse random matrix's inverse, by inverse iteration, each step of
 * which solves a system by 25 steps of conjugate gradients (section 2.2.3).
 *
 * The matrix is divided into blocks of rows and of columns. A rank has the vectors' parts of its columns. A product adds
 * up over the ranks of a row, and its parts go to those ranks that have them as columns.
 */
#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 25
#define CONDITION 0.1 /* the reciprocal of the matrix's condition number */

static const struct {
	int order, nonzeros, iterations;
	double shift, zeta;
} classes[] = {
	{1400, 7, 15, 10, 8.5971775078648},
	{7000, 8, 15, 12, 10.362595087124},
	{14000, 11, 15, 20, 17.130235054029},
};

/* A rank's block, of which rows are compressed. */
struct matrix {
	int order;
	int first_row, rows;
	int first_column, columns;
	int *row_at; /* the first element of each row */
	int *column;
	double *value;
	MPI_Comm row_ranks;
	int partner;     /* exchanges parts of products with this rank */
	int partner_at;  /* the part that it wants, within the rows */
	double *product; /* of this block's rows */
};

struct element {
	int row, column;
	double value;
};

struct elements {
	struct element *all;
	size_t count, room;
};

static void add_element(struct elements *elements, int row, int column, double value)
{
	if (elements->count == elements->room) {
		struct element *all = npb_alloc(2 * elements->room + 1024, sizeof(*all));

		if (elements->count > 0)
			memcpy(all, elements->all, elements->count * sizeof(*all));
		free(elements->all);
		elements->all = all;
		elements->room = 2 * elements->room + 1024;
	}
	elements->all[elements->count++] = (struct element){row, column, value};
}

/* A sparse random vector with `nonzeros` elements at places of its own, and one of 0.5 at `centre`. Returns how many
 * elements it has. */
static int make_vector(uint64_t *state, int order, int nonzeros, int centre, int *at, double *value)
{
	int range = 1;
	int count = 0, has_centre = 0;

	while (range < order)
		range *= 2;
	while (count < nonzeros) {
		double drawn = npb_random(state);
		int place = (int)(range * npb_random(state));
		int is_new = place < order;

		for (int before = 0; before < count; before++)
			is_new = is_new && at[before] != place;
		if (is_new) {
			at[count] = place;
			value[count++] = drawn;
		}
	}
	for (int each = 0; each < count; each++) {
		if (at[each] == centre) {
			value[each] = 0.5;
			has_centre = 1;
		}
	}
	if (!has_centre) {
		at[count] = centre;
		value[count++] = 0.5;
	}
	return count;
}

/* The elements of this rank's block: a weighted sum of outer products of random vectors, less the shift. */
static void make_elements(const struct matrix *m, int class, struct elements *elements)
{
	int order = m->order, nonzeros = classes[class].nonzeros;
	double weight = 1, ratio = pow(CONDITION, 1.0 / order);
	/* The report's program draws a number before it makes the matrix. */
	uint64_t state = npb_random_after(NPB_SEED, 1);
	int at[16];
	double value[16];

	for (int outer = 0; outer < order; outer++) {
		int count = make_vector(&state, order, nonzeros, outer, at, value);

		for (int i = 0; i < count; i++) {
			int row = at[i] - m->first_row;

			for (int j = 0; j < count && row >= 0 && row < m->rows; j++) {
				int column = at[j] - m->first_column;

				if (column >= 0 && column < m->columns)
					add_element(elements, row, column, value[i] * (weight * value[j]));
			}
		}
		weight *= ratio;
	}
	for (int each = m->first_row; each < m->first_row + m->rows; each++) {
		int column = each - m->first_column;

		if (column >= 0 && column < m->columns)
			add_element(elements, each - m->first_row, column, CONDITION - classes[class].shift);
	}
}

/* Orders the elements by rows, and adds up those of one place. */
static void compress(struct matrix *m, const struct elements *elements)
{
	int *row_end = npb_alloc((size_t)m->rows + 1, sizeof(int));
	int *by_row = npb_alloc(elements->count, sizeof(int));
	double *sum = npb_alloc((size_t)m->columns, sizeof(double));
	int *seen_in = npb_alloc((size_t)m->columns, sizeof(int));
	int count = 0, at = 0;

	m->row_at = npb_alloc((size_t)m->rows + 1, sizeof(int));
	m->column = npb_alloc(elements->count, sizeof(int));
	m->value = npb_alloc(elements->count, sizeof(double));
	for (size_t each = 0; each < elements->count; each++)
		row_end[elements->all[each].row + 1]++;
	for (int row = 0; row < m->rows; row++)
		row_end[row + 1] += row_end[row];
	for (size_t each = 0; each < elements->count; each++)
		by_row[row_end[elements->all[each].row]++] = (int)each;
	for (int row = 0; row < m->rows; row++) {
		m->row_at[row] = count;
		for (; at < row_end[row]; at++) {
			const struct element *element = &elements->all[by_row[at]];

			if (seen_in[element->column] != row + 1) {
				seen_in[element->column] = row + 1;
				sum[element->column] = 0;
				m->column[count++] = element->column;
			}
			sum[element->column] += element->value;
		}
		for (int each = m->row_at[row]; each < count; each++)
			m->value[each] = sum[m->column[each]];
	}
	m->row_at[m->rows] = count;
	free(row_end);
	free(by_row);
	free(sum);
	free(seen_in);
}

/* Divides the matrix among as many columns of ranks as rows, or twice as many. */
static void make_matrix(struct matrix *m, const struct npb_run *run, int class)
{
	struct elements elements = {0};
	int rank_rows = run->ranks >= 4 ? 2 : 1;
	int rank_columns = run->ranks / rank_rows;
	int row = run->rank / rank_columns, column = run->rank % rank_columns;
	int halves = rank_columns / rank_rows;

	m->order = classes[class].order;
	m->rows = m->order / rank_rows;
	m->columns = m->order / rank_columns;
	m->first_row = row * m->rows;
	m->first_column = column * m->columns;
	/* The rank whose rows have this rank's columns, and that wants a part of this rank's rows in turn. */
	m->partner = column / halves * rank_columns + row * halves + column % halves;
	m->partner_at = column % halves * m->columns;
	MPI_Comm_split(MPI_COMM_WORLD, row, column, &m->row_ranks);
	m->product = npb_alloc((size_t)m->rows, sizeof(double));
	make_elements(m, class, &elements);
	compress(m, &elements);
	free(elements.all);
}

static void free_matrix(struct matrix *m)
{
	MPI_Comm_free(&m->row_ranks);
	free(m->row_at);
	free(m->column);
	free(m->value);
	free(m->product);
}

/* y = A x, of which ranks have the parts of their columns. */
static void multiply(const struct matrix *m, const double *x, double *y)
{
	for (int row = 0; row < m->rows; row++) {
		double sum = 0;

		for (int each = m->row_at[row]; each < m->row_at[row + 1]; each++)
			sum += m->value[each] * x[m->column[each]];
		m->product[row] = sum;
	}
	MPI_Allreduce(MPI_IN_PLACE, m->product, m->rows, MPI_DOUBLE, MPI_SUM, m->row_ranks);
	MPI_Sendrecv(m->product + m->partner_at, m->columns, MPI_DOUBLE, m->partner, 0, y, m->columns, MPI_DOUBLE,
		     m->partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double dot(const struct matrix *m, const double *x, const double *y)
{
	double own = 0, all;

	for (int at = 0; at < m->columns; at++)
		own += x[at] * y[at];
	MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, m->row_ranks);
	return all;
}

struct vectors {
	double *x, *z, *p, *q, *r;
	double residual_norm;
};

/* z, the solution of A z = x, and the norm of its residual. */
static void solve(const struct matrix *m, struct vectors *v)
{
	double rho, before, alpha, beta;

	for (int at = 0; at < m->columns; at++) {
		v->z[at] = 0;
		v->r[at] = v->p[at] = v->x[at];
	}
	rho = dot(m, v->r, v->r);
	for (int step = 0; step < STEPS; step++) {
		multiply(m, v->p, v->q);
		alpha = rho / dot(m, v->p, v->q);
		for (int at = 0; at < m->columns; at++) {
			v->z[at] += alpha * v->p[at];
			v->r[at] -= alpha * v->q[at];
		}
		before = rho;
		rho = dot(m, v->r, v->r);
		beta = rho / before;
		for (int at = 0; at < m->columns; at++)
			v->p[at] = v->r[at] + beta * v->p[at];
	}
	multiply(m, v->z, v->r);
	for (int at = 0; at < m->columns; at++)
		v->r[at] = v->x[at] - v->r[at];
	v->residual_norm = sqrt(dot(m, v->r, v->r));
}

/* One step of the inverse iteration: the estimate of the eigenvalue. */
static double iterate(const struct matrix *m, struct vectors *v, double shift)
{
	double zeta, norm;

	solve(m, v);
	zeta = shift + 1 / dot(m, v->x, v->z);
	norm = 1 / sqrt(dot(m, v->z, v->z));
	for (int at = 0; at < m->columns; at++)
		v->x[at] = norm * v->z[at];
	return zeta;
}

void npb_cg(struct npb_run *run)
{
	int class = npb_class_index(run);
	int nonzeros = classes[class].nonzeros, iterations = classes[class].iterations;
	struct matrix m;
	struct vectors v;
	double zeta = 0, begin;

	make_matrix(&m, run, class);
	v.x = npb_alloc(5 * (size_t)m.columns, sizeof(double));
	v.z = v.x + m.columns;
	v.p = v.z + m.columns;
	v.q = v.p + m.columns;
	v.r = v.q + m.columns;
	/* The first time is to touch all memory, without the clock. */
	for (int round = 0; round < 2; round++) {
		for (int at = 0; at < m.columns; at++)
			v.x[at] = 1;
		begin = npb_begin();
		for (int at = 0; at < (round == 0 ? 1 : iterations); at++)
			zeta = iterate(&m, &v, classes[class].shift);
		run->seconds = npb_elapsed(begin);
	}
	run->mops = 2.0 * iterations * m.order *
		    (3 + nonzeros * (nonzeros + 1) + 25.0 * (5 + nonzeros * (nonzeros + 1)) + 3) / run->seconds / 1e6;
	npb_check(run, "zeta", zeta, classes[class].zeta, 1e-10);
	free(v.x);
	free_matrix(&m);
}
