"""The same as python -m estimator_asr_runtime.transcribe."""

import sys

from estimator_asr_runtime import transcribe

if __name__ == "__main__":
    sys.exit(transcribe.main())
