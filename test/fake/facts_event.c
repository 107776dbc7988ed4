/* Facts about events. */
#include "fake/facts.h"

static void life(void)
{
    struct gate gate;
    CUstream stream;
    CUevent event;

    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    say_code("flags", cu.cuEventCreate(&event, 0x100));
    say_code("null_out", cu.cuEventCreate(NULL, 0));
    event = make_event(CU_EVENT_DEFAULT);
    say_code("query_new", cu.cuEventQuery(event));
    say_code("synchronize_new", cu.cuEventSynchronize(event));
    hold(&gate, stream);
    say_code("record", cu.cuEventRecord(event, stream));
    say_code("query_held", cu.cuEventQuery(event));
    let_go(&gate);
    say_code("synchronize", cu.cuEventSynchronize(event));
    say_code("query_done", cu.cuEventQuery(event));
    hold(&gate, stream);
    must(cu.cuEventRecord(event, stream), "record");
    say_code("query_recorded_again", cu.cuEventQuery(event));
    say_code("destroy_held", cu.cuEventDestroy_v2(event));
    let_go(&gate);
    say_code("stream", cu.cuStreamSynchronize(stream));
    say_code("query_null", cu.cuEventQuery(NULL));
    say_code("record_null", cu.cuEventRecord(NULL, stream));
    say_code("synchronize_null", cu.cuEventSynchronize(NULL));
    say_code("destroy_null", cu.cuEventDestroy_v2(NULL));
    event = make_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    say_code("record_on_null", cu.cuEventRecord(event, NULL));
    say_code("synchronize", cu.cuEventSynchronize(event));
}

static void timing(void)
{
    struct gate gate;
    CUevent untimed;
    CUevent first;
    CUevent second;
    CUevent fresh;
    CUstream stream;
    float ms = -1;

    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    untimed = make_event(CU_EVENT_DISABLE_TIMING);
    first = make_event(CU_EVENT_DEFAULT);
    second = make_event(CU_EVENT_DEFAULT);
    fresh = make_event(CU_EVENT_DEFAULT);
    must(cu.cuEventRecord(first, stream), "record");
    must(cu.cuEventRecord(untimed, stream), "record");
    must(cu.cuStreamSynchronize(stream), "synchronize");
    say_code("fresh", cu.cuEventElapsedTime(&ms, first, fresh));
    say_code("untimed", cu.cuEventElapsedTime(&ms, first, untimed));
    say_code("null", cu.cuEventElapsedTime(&ms, first, NULL));
    say_code("null_out", cu.cuEventElapsedTime(NULL, first, first));
    hold(&gate, stream);
    must(cu.cuEventRecord(second, stream), "record");
    say_code("held", cu.cuEventElapsedTime(&ms, first, second));
    let_go(&gate);
    must(cu.cuStreamSynchronize(stream), "synchronize");
    say_code("good", cu.cuEventElapsedTime(&ms, first, second));
    say_yes("positive", ms > 0);
    say_code("reverse", cu.cuEventElapsedTime(&ms, second, first));
    say_yes("negative", ms < 0);
    say_code("itself", cu.cuEventElapsedTime(&ms, first, first));
    say_yes("zero", ms == 0);
}

const struct fact facts_event[] = {
    {"event.life", life},
    {"event.timing", timing},
    {NULL, NULL},
};
