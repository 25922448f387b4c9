"""The demo's Mandarin corpus: sentences of a small grammar, spoken by eSpeak NG."""
