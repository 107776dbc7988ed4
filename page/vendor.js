// The functions that the page uses of its libraries, as one global.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { scaleLinear } from "d3-scale";

globalThis.vendor = { flamegraph, select, scaleLinear };
