"""A data file of Flent's, with what its own code makes of what `ss -t -i -p -n` prints of one upload."""
import sys

sys.path.insert(0, "/usr/share/flent")
from datetime import datetime, timezone

try:
    from flent.resultset import ResultSet
    from flent.runners import SsRunner
except ImportError:
    print("flent is not installed")
    sys.exit(0)

BEGIN = 1_780_000_000


def printed(at, cwnd, rtt):
    return f"""State      Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0 1234 10.0.0.1:40000 10.0.0.2:12866 users:(("netperf",pid=7,fd=4))
\t cubic wscale:7,7 rto:240 rtt:{rtt}/2.5 mss:1448 cwnd:{cwnd} ssthresh:20 pacing_rate 12.5Mbps delivery_rate 9800Kbps

Time: {at}.500000000
"""


SsRunner.__del__ = lambda self: None  # it was not made to run
runner = object.__new__(SsRunner)
values = []
for second in range(5):
    values.append({"t": BEGIN + second + 1, "dur": 1.0, "val": 8.0})
    text = printed(BEGIN + second, 10 + second, 20.5 + second)
    for told in SsRunner.parse_part(runner, text):
        values.append({k: v for k, v in told.items() if k not in ("pid", "dst_p")})
begin = datetime.fromtimestamp(BEGIN, timezone.utc).replace(tzinfo=None)
results = ResultSet(NAME="tcp_nup", DATA_FILENAME="sockets", TIME=begin, T0=begin, LENGTH=5, TOTAL_LENGTH=5, STEP_SIZE=1.0)
results.x_values = [1.0, 2.0, 3.0, 4.0, 5.0]
results.add_result("TCP upload::1", [8.0] * 5)
results.raw_values = {"TCP upload::1": values}
results.meta("SERIES_META", {"TCP upload::1": {"UNITS": "Mbits/s", "RUNNER": "NetperfDemoRunner"}})
results.dump_dir(".")
