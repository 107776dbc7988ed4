/* The terminal of aclmem top.  See top.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

#if !HAS_CURSES

int top_screen_run(long interval, enum top_sort sort)
{
    fprintf(stderr, "aclmem top: this build has no ncurses; use --once or --json\n");
    return 1;
}

#else

#include <curses.h>
#include <langinfo.h>
#include <locale.h>

/* What the user chose with keys. */
struct screen {
    struct top_view view;
    size_t first;       /* line at the top */
    long long selected; /* process; 0: none */
};

static volatile sig_atomic_t ended_by; /* the signal; 0: none */

static void on_signal(int number)
{
    ended_by = number;
}

/* A clipped line; the rest of the row is blank. */
static void row_draw(int row, const struct top_line *line, long long selected)
{
    attr_t attributes;

    move(row, 0);
    clrtoeol();
    if (line == NULL)
        return;
    attributes = (attr_t)COLOR_PAIR(line->colour);
    if (line->colour == TOP_TITLE)
        attributes |= A_BOLD;
    if (line->pid != 0 && line->pid == selected)
        attributes |= A_REVERSE;
    attron(attributes);
    addnstr(line->text, (int)strlen(line->text));
    attroff(attributes);
}

static void head_draw(enum top_sort sort)
{
    char text[2 * TOP_COLUMNS];
    time_t now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    snprintf(text, sizeof text,
             "aclmem top  %02d:%02d:%02d  by %s  q quits, arrows choose, Enter details, "
             "l p r n c sort",
             local.tm_hour, local.tm_min, local.tm_sec, top_sort_names[sort]);
    move(0, 0);
    clrtoeol();
    attron(A_REVERSE);
    addnstr(text, COLS);
    attroff(A_REVERSE);
}

/* Draws the lines from screen->first on, which is brought into range. */
static void draw(const struct top_lines *lines, struct screen *screen)
{
    size_t room = LINES > 1 ? (size_t)LINES - 1 : 1;
    size_t last = lines->n > room ? lines->n - room : 0;

    if (screen->first > last)
        screen->first = last;
    head_draw(screen->view.sort);
    for (size_t i = 0; i < room; i++) {
        size_t at = screen->first + i;

        row_draw((int)i + 1, at < lines->n ? &lines->line[at] : NULL, screen->selected);
    }
    refresh();
}

/* Selects the next process (step 1) or the one before (-1), and scrolls to it. */
static void process_select(const struct top_lines *lines, struct screen *screen, int step)
{
    size_t room = LINES > 1 ? (size_t)LINES - 1 : 1;
    size_t at = step > 0 ? 0 : lines->n;
    bool is_past = screen->selected == 0;

    for (size_t i = 0; i < lines->n; i++) {
        size_t k = step > 0 ? i : lines->n - 1 - i;
        long long pid = lines->line[k].pid;

        if (pid == screen->selected && pid != 0) {
            is_past = true;
        } else if (is_past && pid != 0) {
            screen->selected = pid;
            at = k;
            break;
        }
    }
    if (at < screen->first)
        screen->first = at;
    else if (at < lines->n && at >= screen->first + room)
        screen->first = at - room + 1;
}

/* Acts on a key; false: it is time to end.  *ret_is_stale: the lines must be made again. */
static bool key_take(int key, const struct top_lines *lines, struct screen *screen,
                     bool *ret_is_stale)
{
    static const char sorts[] = "lprnc"; /* in the order of enum top_sort */
    size_t page = LINES > 2 ? (size_t)LINES - 2 : 1;
    const char *sort = key > 0 && key < 128 ? strchr(sorts, key) : NULL;

    if (sort != NULL && *sort != '\0') {
        screen->view.sort = (enum top_sort)(sort - sorts);
        *ret_is_stale = true;
        return true;
    }
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case KEY_DOWN:
    case KEY_UP:
        process_select(lines, screen, key == KEY_DOWN ? 1 : -1);
        break;
    case KEY_NPAGE:
        screen->first += page;
        break;
    case KEY_PPAGE:
        screen->first -= screen->first > page ? page : screen->first;
        break;
    case '\n':
    case KEY_ENTER:
        screen->view.detailed =
            screen->view.detailed == screen->selected ? 0 : screen->selected;
        *ret_is_stale = true;
        break;
    default:
        break;
    }
    return true;
}

/* Shows one sample until the next is due; false: it is time to end. */
static bool sample_show(const struct top_sample *sample, struct screen *screen,
                        long interval)
{
    time_t begun = time(NULL);
    struct top_lines lines = top_lines_of(sample, &screen->view);
    bool goes_on = true;

    while (goes_on && !ended_by) {
        bool is_stale = false;
        int key;

        draw(&lines, screen);
        key = getch();
        if (key == ERR && time(NULL) - begun >= interval)
            break;
        goes_on = key == ERR || key_take(key, &lines, screen, &is_stale);
        if (is_stale) {
            top_lines_free(&lines);
            lines = top_lines_of(sample, &screen->view);
        }
    }
    top_lines_free(&lines);
    return goes_on;
}

static bool samples_show(long interval, enum top_sort sort)
{
    static struct top_sample sample;
    struct screen screen = {
        .view = {.sort = sort,
                 .has_history = true,
                 .is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0}};
    bool is_good = true;
    bool goes_on = true;

    while (goes_on && is_good && !ended_by) {
        is_good = top_sample_next(&sample);
        if (is_good)
            goes_on = sample_show(&sample, &screen, interval);
    }
    top_sample_free(&sample);
    return is_good;
}

/* One pair of colours for each enum top_colour. */
static void colours_set(void)
{
    static const short colours[] = {
        [TOP_PLAIN] = -1,        [TOP_TITLE] = COLOR_CYAN,
        [TOP_LOW] = COLOR_GREEN, [TOP_MIDDLE] = COLOR_YELLOW,
        [TOP_HIGH] = COLOR_RED,  [TOP_WAITING] = COLOR_YELLOW};

    if (!has_colors() || getenv("NO_COLOR") != NULL || start_color() == ERR)
        return;
    use_default_colors();
    for (size_t i = 1; i < sizeof colours / sizeof colours[0]; i++)
        init_pair((short)i, colours[i], -1);
}

int top_screen_run(long interval, enum top_sort sort)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}; /* a wait for a key ends */
    const char *terminal = getenv("TERM");
    SCREEN *screen;
    bool is_good;

    setlocale(LC_CTYPE, "");
    screen = newterm(NULL, stdout, stdin);
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
    colours_set();
    curs_set(0);
    timeout(250);
    is_good = samples_show(interval, sort);
    endwin();
    delscreen(screen);
    if (ended_by) { /* the terminal is as it was; now the signal does what it always does */
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    return is_good ? 0 : 1;
}

#endif
