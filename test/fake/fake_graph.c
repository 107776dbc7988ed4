/*
 * Graphs: the copies that were put on a stream while it was captured.  A launch puts them on
 * a stream again.  A graph and its executable form are one object with two owners.
 */
#include "fake/fake.h"

#include <stdlib.h>

struct fake_node {
    CUdeviceptr dst;
    CUdeviceptr src;
    size_t size;
};

struct CUgraph_st {
    struct fake_node *nodes;
    size_t n;
    unsigned refs;
};

bool fake_graph_add_locked(struct fake_capture *capture, CUdeviceptr dst, CUdeviceptr src,
                           size_t size)
{
    struct CUgraph_st *graph = capture->graph;
    struct fake_node *nodes;

    if (!graph)
        graph = capture->graph = calloc(1, sizeof *graph);
    nodes = graph ? realloc(graph->nodes, (graph->n + 1) * sizeof *nodes) : NULL;
    if (!nodes)
        return false;
    graph->nodes = nodes;
    graph->refs = 1;
    nodes[graph->n++] = (struct fake_node){dst, src, size};
    return true;
}

static CUresult put(CUgraph graph)
{
    bool is_last;

    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    is_last = --graph->refs == 0;
    fake_unlock(CUDA_SUCCESS);
    if (is_last) {
        free(graph->nodes);
        free(graph);
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *ret_exec, CUgraph graph,
                                          unsigned long long flags)
{
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    graph->refs++;
    *ret_exec = (CUgraphExec)graph;
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    const struct CUgraph_st *graph = (CUgraph)exec;
    CUresult rc = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; rc == CUDA_SUCCESS && i < graph->n; i++)
        rc = fake_cuMemcpyAsync(graph->nodes[i].dst, graph->nodes[i].src,
                                graph->nodes[i].size, stream);
    return rc;
}

CUresult fake_cuGraphExecDestroy(CUgraphExec exec)
{
    return put((CUgraph)exec);
}

CUresult fake_cuGraphDestroy(CUgraph graph)
{
    return put(graph);
}
