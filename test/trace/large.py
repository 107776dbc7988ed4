"""A page of a million events: made, opened, dragged.  For test_page.py and bench/page.py."""

BLOCKS = 500000
LIVE = 2000
EVENTS = 2 * BLOCKS - LIVE
FRAMES = 90


def trace_write(path):
    """Blocks of seven streams, in the form `lines`."""
    state = 1
    with open(path, "w", encoding="ascii") as file:
        for i in range(BLOCKS):
            state = (state * 1103515245 + 12345) % 2147483648
            file.write("a %d %d %d\n" % (i, 512 + state % 65536, state % 7))
            if i >= LIVE:
                file.write("f %d\n" % (i - LIVE))


def drag(chrome):
    """Milliseconds between the frames of a drag over the chart, and of the work of each of them."""
    return chrome.evaluate(
        "new Promise((done) => { const c = document.querySelector('#chart canvas'), box = c.getBoundingClientRect(), between = [], work = [], y = box.top + 50;"
        " const send = (kind, x) => c.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x, clientY: y, bubbles: true, button: 0, pointerId: 1}));"
        " c.setPointerCapture = () => {}; rangeSet(data.duration * 0.3, data.duration * 0.4); redraw(); send('pointerdown', box.width * 0.8);"
        " let k = 0, last = performance.now();"
        " const frame = () => { const now = performance.now(); between.push(now - last); last = now; send('pointermove', box.width * 0.8 - 4 * k);"
        "  c.paint(); work.push(performance.now() - now);"
        "  if (++k < %d) requestAnimationFrame(frame); else { send('pointerup', 0); done([between.slice(2), work]); } };"
        " requestAnimationFrame(frame); })" % FRAMES
    )


def middle(values):
    return sorted(values)[len(values) // 2]
