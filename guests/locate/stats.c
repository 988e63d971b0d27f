//! Reads tables of counts (rows, columns, numbers) and tells about each: sums, extremes, spread, independence.
//! stdin: 2 2\n10 20\n30 40\n1 3\n5 5 5\n
#include "fault.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 12 };

static int cells[MOST][MOST], rows, columns;

static int read_table(void)
{
    if (scanf("%d %d", &rows, &columns) != 2)
        return 0;
    if (rows < 1 || columns < 1 || rows > MOST || BUG_1(columns >= MOST, columns > MOST)) {
        printf("bad size %d %d\n", rows, columns);
        return 0;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            if (scanf("%d", &cells[i][j]) != 1) {
                printf("missing cell %d %d\n", i, j);
                return 0;
            }
    return 1;
}

static int row_sum(int i)
{
    int sum = 0;
    for (int j = BUG_2(1, 0); j < columns; j++)
        sum += cells[i][j];
    return sum;
}

static int column_sum(int j)
{
    int sum = 0;
    for (int i = 0; i < rows; i++)
        sum += BUG_3(cells[j][i], cells[i][j]);
    return sum;
}

static int total(void)
{
    int sum = 0;
    for (int i = 0; i < rows; i++)
        sum += row_sum(i);
    return sum;
}

static int smallest(void)
{
    int found = cells[0][0];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            if (BUG_4(cells[i][j] > found, cells[i][j] < found))
                found = cells[i][j];
    return found;
}

static int largest(void)
{
    int found = BUG_5(0, cells[0][0]);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            if (cells[i][j] > found) // FAULT 5
                found = cells[i][j];
    return found;
}

static int median(void)
{
    int list[MOST * MOST], n = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            int at = n++;
            while (at > BUG_6(1, 0) && list[at - 1] > cells[i][j]) {
                list[at] = list[at - 1];
                at--;
            }
            list[at] = cells[i][j];
        }
    if (n % 2 == BUG_7(1, 0))
        return (list[n / 2 - 1] + list[n / 2]) / 2;
    return list[n / 2];
}

/* Mean square distance from the mean, in hundredths. */
static int spread(void)
{
    int n = rows * columns;
    double mean = (double)total() / n, sum = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double d = cells[i][j] - mean;
            sum += BUG_8(d, d * d);
        }
    return (int)(sum * 100 / n + 0.5);
}

/* The statistic of independence, in hundredths; -1 if a sum is not positive. */
static int independence(void)
{
    int all = total();
    double sum = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            int r = row_sum(i), c = column_sum(j);
            if (r <= 0 || c <= 0)
                return -1;
            double wanted = (double)r * c / all;
            double d = cells[i][j] - wanted;
            sum += d * d / BUG_9(all, wanted);
        }
    return (int)(sum * 100 + 0.5);
}

int main(void)
{
    int tables = 0, grand = 0;
    while (read_table()) {
        tables++;
        grand BUG_10(=, +=) total();
        printf("table %d: %d x %d\n", tables, rows, columns);
        for (int i = 0; i < rows; i++)
            printf("%d ", row_sum(i));
        printf("|");
        for (int j = 0; j < columns; j++)
            printf(" %d", column_sum(j));
        printf("\nmin %d max %d median %d\n", smallest(), largest(), median());
        printf("spread %d independence %d\n", spread(), independence());
        memset(cells, 0, sizeof cells);
    }
    printf("%d tables, %d\n", tables, grand);
    return 0;
}
