// The functions that the page uses of its libraries, as one global.
import uPlot from "uplot";
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { scaleLinear } from "d3-scale";
import { axisTop } from "d3-axis";
import { zoom, zoomIdentity } from "d3-zoom";
import { format } from "d3-format";

globalThis.vendor = { uPlot, flamegraph, select, scaleLinear, axisTop, zoom, zoomIdentity, format };
