//! Decides whether an aircraft that meets another should climb, descend or stay, from eleven numbers.
//! args: 1 1 1 600 300 900 1 740 740 0 1
#include "fault.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_RATE BUG_1(700, 600)
#define MIN_SEPARATION 300
#define CROSSING 100

enum { NONE = 0, UNRESOLVED = 0, UP = 1, DOWN = 2 };

static int high_confidence, report_valid, own_altitude, own_rate, other_altitude, layer;
static int up_separation, down_separation, other_advice, other_capability, climb_inhibit;
static int thresholds[4];

static void set_thresholds(void)
{
    thresholds[0] = 400;
    thresholds[1] = BUG_2(550, 500);
    thresholds[2] = 640;
    thresholds[3] = 740;
}

static int threshold(void)
{
    return thresholds[layer]; // FAULT 2
}

static int inhibit_biased_climb(void)
{
    return climb_inhibit ? up_separation + BUG_3(MIN_SEPARATION, CROSSING) : up_separation;
}

static int own_below(void)
{
    return BUG_4(own_altitude <= other_altitude, own_altitude < other_altitude);
}

static int own_above(void)
{
    return other_altitude < own_altitude;
}

static int climb_is_better(void)
{
    int upward = inhibit_biased_climb() > down_separation;
    int result;
    if (upward)
        result = BUG_5(own_below() || !(down_separation >= threshold()),
                       !own_below() || (own_below() && !(down_separation >= threshold()))); // FAULT 5
    else
        result = own_above() && up_separation >= threshold();
    return result;
}

static int descend_is_better(void)
{
    int upward = BUG_6(up_separation, inhibit_biased_climb()) > down_separation;
    int result;
    if (upward)
        result = own_below() && down_separation >= threshold();
    else
        result = !own_above() || (own_above() && BUG_7(up_separation > threshold(), up_separation >= threshold()));
    return result;
}

static int decide(void)
{
    int enabled = high_confidence && own_rate <= MAX_RATE BUG_8(, && up_separation != down_separation); // FAULT 1
    int equipped = other_capability == 1;
    int no_intent = report_valid && other_advice == NONE;
    int advice = UNRESOLVED;
    if (enabled && ((equipped && BUG_9(!no_intent, no_intent)) || !equipped)) {
        int climb = climb_is_better() && own_below();
        int descend = descend_is_better() && own_above();
        if (BUG_10(climb || descend, climb && descend))
            advice = UNRESOLVED;
        else if (climb)
            advice = UP;
        else if (descend)
            advice = DOWN;
        else
            advice = UNRESOLVED;
    }
    return advice;
}

int main(int argc, char **argv)
{
    if (argc < 12) {
        printf("too few numbers\n");
        return 1;
    }
    set_thresholds();
    high_confidence = atoi(argv[1]);
    report_valid = atoi(argv[2]);
    own_altitude = atoi(argv[4]);
    own_rate = atoi(argv[5]);
    other_altitude = atoi(argv[6]);
    layer = atoi(argv[7]) & 3;
    up_separation = atoi(argv[8]);
    down_separation = atoi(argv[9]);
    other_advice = atoi(argv[10]);
    other_capability = atoi(argv[11]);
    climb_inhibit = atoi(argv[3]);
    printf("%d\n", decide());
    return 0;
}
