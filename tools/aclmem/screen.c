/* The terminal of aclmem top.  See top.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

#if !HAS_CURSES

int top_screen_run(long interval)
{
    fprintf(stderr, "aclmem top: this build has no ncurses; use --once or --json\n");
    return 1;
}

#else

#include <curses.h>

static volatile sig_atomic_t ended_by; /* the signal; 0: none */

static void on_signal(int number)
{
    ended_by = number;
}

/* A clipped line; the rest of the row is blank. */
static void row_draw(int row, const struct top_line *line)
{
    move(row, 0);
    clrtoeol();
    if (line == NULL)
        return;
    if (line->is_title)
        attron(A_BOLD);
    addnstr(line->text, COLS);
    if (line->is_title)
        attroff(A_BOLD);
}

static void head_draw(void)
{
    char text[TOP_COLUMNS + 1];
    time_t now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    snprintf(text, sizeof text, "aclmem top  %02d:%02d:%02d  q quits, arrows scroll",
             local.tm_hour, local.tm_min, local.tm_sec);
    move(0, 0);
    clrtoeol();
    attron(A_REVERSE);
    addnstr(text, COLS);
    attroff(A_REVERSE);
}

/* Draws the lines from *first on, which is brought into range. */
static void draw(const struct top_lines *lines, size_t *first)
{
    size_t room = LINES > 1 ? (size_t)LINES - 1 : 1;
    size_t last = lines->n > room ? lines->n - room : 0;

    if (*first > last)
        *first = last;
    head_draw();
    for (size_t i = 0; i < room; i++) {
        size_t at = *first + i;

        row_draw((int)i + 1, at < lines->n ? &lines->line[at] : NULL);
    }
    refresh();
}

/* Moves by a key; false: it is time to go. */
static bool key_take(int key, size_t *first)
{
    size_t page = LINES > 2 ? (size_t)LINES - 2 : 1;

    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case KEY_DOWN:
        ++*first;
        break;
    case KEY_NPAGE:
        *first += page;
        break;
    case KEY_UP:
        *first -= *first > 0;
        break;
    case KEY_PPAGE:
        *first -= *first > page ? page : *first;
        break;
    default:
        break;
    }
    return true;
}

static bool samples_show(long interval)
{
    struct top_sample sample = {0};
    bool is_good = true;
    bool goes_on = true;
    size_t first = 0;

    while (goes_on && is_good && !ended_by) {
        struct top_lines lines = {0};
        time_t begun = time(NULL);

        is_good = top_sample_next(&sample);
        if (is_good)
            lines = top_lines_of(&sample);
        /* Keys and a new size are answered with the same sample. */
        while (goes_on && is_good && !ended_by) {
            int key;

            draw(&lines, &first);
            key = getch();
            if (key == ERR && time(NULL) - begun >= interval)
                break;
            goes_on = key == ERR || key_take(key, &first);
        }
        top_lines_free(&lines);
    }
    top_sample_free(&sample);
    return is_good;
}

int top_screen_run(long interval)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}; /* a wait for a key ends */
    const char *terminal = getenv("TERM");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    bool is_good;

    if (screen == NULL) {
        fprintf(stderr,
                "aclmem top: nothing is known of the terminal \"%s\" (TERM); "
                "--once prints one sample\n",
                terminal != NULL ? terminal : "");
        return 1;
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    timeout(250);
    is_good = samples_show(interval);
    endwin();
    delscreen(screen);
    if (ended_by) { /* the terminal is as it was; now the signal does what it always does */
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    return is_good ? 0 : 1;
}

#endif
