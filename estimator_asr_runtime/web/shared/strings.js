// The texts of the server's page and of the page without a server, in English and Chinese.

const STRINGS = {
  en: {
    title: "Speech to text",
    input: "Speak, or choose a recording",
    record: "Record",
    choose: "Choose a file",
    drop: "or drop a file here",
    level: "Level of the microphone",
    stays: "The audio stays in this browser; nothing is sent to a server.",
    hotwords: "Words to expect",
    hotwordsHint: "Names and terms, one per line: 神雕侠侣, or with pinyin and boost: 乐山 le4 shan1 6",
    token: "Access token",
    transcript: "Transcript",
    play: "Play",
    pause: "Stop",
    copy: "Copy",
    copied: "Copied.",
    notCopied: "The browser could not copy the transcript. Select it and copy it by hand.",
    legend: "The darker the shade, the less sure the model is. Click a character to hear it; use the arrow keys to move.",
    timesLegend: "The darker the shade, the less sure the model is. Point at a character to see its times.",
    timeline: "Waveform, spectrogram and characters over time",
    nBest: "Other transcripts",
    model: (version) => `model version ${version}`,
    liveLegend: "Grey words may still change. The number above a word is how many seconds ago it was spoken.",
    streamFailed: (problem) => `${problem}. The recording continues, and will be sent as a whole.`,
    listening: "Listening. Press Record again when you have finished.",
    listeningFor: (seconds) => `Listening for up to ${seconds} s. Press Record again when you have finished.`,
    loading: "Model loading progress",
    loadingPercent: (percent) => `Loading the model: ${percent} %`,
    ready: "Ready.",
    working: "Recognising…",
    done: (audio, time, sure) => `${audio} s of audio in ${time} s. Confidence ${sure} %.`,
    nothing: "No speech was recognised.",
    character: (text, pinyin, sure) => `${text} ${pinyin}, ${sure} % sure: play`,
    characterTimes: (start, end, sure) => `${start} to ${end} s, ${sure} % sure`,
    noMicrophone:
      "Browsers allow a page to use the microphone only over https or on localhost. Open this page that way, or choose a file.",
    refused: "Access to the microphone was denied. Allow it in the browser's settings for this page, or choose a file.",
    missing: "No microphone was found. Connect one, or choose a file.",
    undecodable: "The browser cannot read this file as audio. Convert it to WAV.",
    failed: (problem) => `Recognition failed: ${problem}`,
    unreachable: "The server does not respond. Is it still running?",
    unauthorised: "The server needs an access token. Enter it above.",
    status: {
      malformed: "This file cannot be read as audio.",
      empty: "The recording is too short to contain speech.",
      silent: "The recording is silent. Is the right microphone switched on?",
      not_finite: "The recording has samples that are NaN or Inf. Save it again.",
      too_long: "The recording is too long. Cut it at a pause.",
    },
    other: "中文",
  },
  zh: {
    title: "语音识别",
    input: "说话，或选择录音",
    record: "录音",
    choose: "选择文件",
    drop: "或拖放到这里",
    level: "麦克风音量",
    stays: "录音只留在本浏览器中，不会发送到服务器。",
    hotwords: "热词",
    hotwordsHint: "人名和术语，每行一个：神雕侠侣，也可加拼音和权重：乐山 le4 shan1 6",
    token: "访问令牌",
    transcript: "识别结果",
    play: "播放",
    pause: "停止",
    copy: "复制",
    copied: "已复制。",
    notCopied: "浏览器没有复制：请选中识别结果并复制。",
    legend: "底色越深，模型越没有把握。点击汉字可以听它的发音，方向键移到其他汉字。",
    timesLegend: "底色越深，模型越没有把握。指向汉字可以看到它的时间。",
    timeline: "波形、频谱和各字的时间",
    nBest: "其他候选",
    model: (version) => `模型版本 ${version}`,
    liveLegend: "灰色的字还可能改变，上方是说出后的秒数。",
    streamFailed: (problem) => `${problem}。录音继续，结束后整体发送。`,
    listening: "正在录音：说完后再按一次“录音”。",
    listeningFor: (seconds) => `正在录音，最长 ${seconds} 秒：说完后再按一次“录音”。`,
    loading: "模型加载进度",
    loadingPercent: (percent) => `正在加载模型：${percent} %`,
    ready: "就绪。",
    working: "正在识别……",
    done: (audio, time, sure) => `${audio} 秒语音用时 ${time} 秒，置信度 ${sure} %。`,
    nothing: "没有识别到语音。",
    character: (text, pinyin, sure) => `${text} ${pinyin}，置信度 ${sure} %：播放`,
    characterTimes: (start, end, sure) => `${start} 至 ${end} 秒，置信度 ${sure} %`,
    noMicrophone: "浏览器只在 https 或 localhost 的页面上开放麦克风：请这样打开本页，或选择文件。",
    refused: "麦克风被拒绝：请在浏览器设置中允许本页使用，或选择文件。",
    missing: "没有找到麦克风：请连接麦克风，或选择文件。",
    undecodable: "浏览器不能读取这个音频文件：请转换为 WAV。",
    failed: (problem) => `出错：${problem}`,
    unreachable: "服务器没有应答：它还在运行吗？",
    unauthorised: "服务器需要访问令牌：请在上面输入。",
    status: {
      malformed: "这不是可以读取的录音。",
      empty: "录音太短，没有语音。",
      silent: "录音是静音的：麦克风打开了吗？",
      not_finite: "录音中有无效的采样值：请重新保存。",
      too_long: "录音太长：请在停顿处剪开。",
    },
    other: "English",
  },
};

// Returns the browser's language if the page has its texts, otherwise English.
export function chooseLanguage() {
  return navigator.language.startsWith("zh") ? "zh" : "en";
}

// Shows the page in a language; returns its texts.
export function translatePage(language) {
  const words = STRINGS[language];
  document.documentElement.lang = language;
  document.title = words.title;
  for (const item of document.querySelectorAll("[data-text]")) item.textContent = words[item.dataset.text];
  for (const item of document.querySelectorAll("[data-label]")) item.setAttribute("aria-label", words[item.dataset.label]);
  for (const item of document.querySelectorAll("[data-hint]")) item.placeholder = words[item.dataset.hint];
  const button = document.getElementById("language");
  button.textContent = words.other;
  button.lang = language === "en" ? "zh" : "en";
  return words;
}
