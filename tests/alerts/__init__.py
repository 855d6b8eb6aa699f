"""The alerts of the chart, judged by Prometheus' own rule engine on what a scheduler says of itself."""
