/** What the page says, in English and Chinese. */

/** A language of the page. */
export type Language = "en" | "zh";

const EN = {
  about: "Everything you say is stored before it counts as sent.",
  accept: "Accept",
  account: "Your name",
  add: "Add",
  addNames: "Add people by name",
  attach: "Send files",
  away: "The connection is lost. Trying again …",
  back: "Back to the people",
  cancel: "Cancel",
  caption: "Say something about it",
  connect: "Connect now",
  closed: "closed",
  connecting: "Connecting …",
  decline: "Decline",
  delivered: "delivered",
  describe: "Describe the picture",
  draft: "Draft",
  edit: "Edit",
  edited: "edited",
  editing: "You edit a message.",
  ended: "The connection has ended.",
  enter: "Log in",
  failed: "not sent",
  files: "Files to be sent",
  foundNothing: "Nothing was found.",
  foundNothingYet: "Nothing was found so far.",
  groupNames: "Names of people, parted by commas",
  groupTitle: "Title",
  here: "Go on here",
  hide: "Hide until something is said",
  inGroup: "in this group",
  language: "Language",
  leave: "Log out",
  inRoom: "here",
  make: "Make the group",
  members: "Members",
  mentioned: "you are mentioned",
  missed: "messages were left out",
  more: "Earlier messages …",
  moreFound: "Search further back …",
  moreOf: "More about this message",
  morePeople: "More conversations …",
  mute: "Mute",
  muted: "muted",
  newGroup: "New group",
  newest: "To the newest",
  newMessages: "New messages",
  noneYet: "Nothing was said yet. Say something.",
  noPeople: "You have talked with nobody yet. Write to somebody by name.",
  offered: "Names",
  open: "Write",
  options: "About this conversation",
  password: "Password",
  passwordNote: "Leave it empty where the server lets in without one.",
  people: "People",
  peer: "Name of somebody",
  pin: "Pin to the top",
  pinned: "pinned",
  quit: "Leave the group",
  quote: "Quote",
  quoting: "You quote:",
  read: "read",
  recall: "Call back",
  remove: "Remove",
  say: "Say something",
  search: "Search",
  searching: "Searching …",
  send: "Send",
  sendAgain: "Send again",
  sent: "sent",
  silent: "muted",
  sought: "Search what was said",
  start: "Choose somebody, or write to somebody by name.",
  title: "Holdline Chat",
  unhide: "Do not hide",
  unmute: "Unmute",
  unpin: "Unpin",
  unread: "unread",
  uploading: "On its way",
  waiting: "waiting",
  whoRead: "Who has read it",
};

/** The names of the page's words. */
export type Word = keyof typeof EN;

const ZH: Readonly<Record<Word, string>> = {
  about: "每条消息先存储，才算已发送。",
  accept: "接受",
  account: "你的名字",
  add: "添加",
  addNames: "按名字添加成员",
  attach: "发送文件",
  away: "连接已断开，正在重试……",
  back: "返回联系人",
  cancel: "取消",
  caption: "说明一下",
  connect: "立即连接",
  closed: "全员禁言",
  connecting: "正在连接……",
  decline: "拒绝",
  delivered: "已送达",
  describe: "描述这张图片",
  draft: "草稿",
  edit: "编辑",
  edited: "已编辑",
  editing: "正在编辑消息。",
  ended: "连接已结束。",
  enter: "登录",
  failed: "未发送",
  files: "待发送的文件",
  foundNothing: "没有找到。",
  foundNothingYet: "目前还没有找到。",
  groupNames: "成员的名字，用逗号分开",
  groupTitle: "群组名称",
  here: "在这里继续",
  hide: "隐藏，直到有新消息",
  inGroup: "名成员",
  language: "语言",
  leave: "退出登录",
  inRoom: "人在场",
  make: "创建群组",
  members: "成员",
  mentioned: "提到了你",
  missed: "条消息被略过",
  more: "更早的消息……",
  moreFound: "继续往前搜索……",
  moreOf: "此消息的更多操作",
  morePeople: "更多会话……",
  mute: "免打扰",
  muted: "已禁言",
  newGroup: "新建群组",
  newest: "回到最新",
  newMessages: "新消息",
  noneYet: "还没有消息，说点什么吧。",
  noPeople: "还没有联系人。输入名字，开始聊天。",
  offered: "名字",
  open: "写消息",
  options: "会话选项",
  password: "密码",
  passwordNote: "服务器允许无密码登录时可留空。",
  people: "联系人",
  peer: "对方的名字",
  pin: "置顶",
  pinned: "已置顶",
  quit: "离开群组",
  quote: "引用",
  quoting: "正在引用：",
  read: "已读",
  recall: "撤回",
  remove: "移除",
  say: "说点什么",
  search: "搜索",
  searching: "正在搜索……",
  send: "发送",
  sendAgain: "重新发送",
  sent: "已发送",
  silent: "免打扰",
  sought: "搜索聊天记录",
  start: "选择一位联系人，或输入名字开始聊天。",
  title: "Holdline 聊天",
  unhide: "取消隐藏",
  unmute: "取消免打扰",
  unpin: "取消置顶",
  unread: "条未读",
  uploading: "正在上传",
  waiting: "等待发送",
  whoRead: "谁已读",
};

/** How many of the others have read a message of a group. */
export function sentenceOfReaders(language: Language, read: number, total: number): string {
  return language === "zh" ? `${total} 人中 ${read} 人已读` : `read by ${read} of ${total}`;
}

/** What went wrong, by the library's word for it; what is not here is told by `other`. */
const FAULTS_EN = {
  bad_credentials: "Name or password is wrong.",
  not_authorized: "You may not do this: a rule of the server forbids it.",
  name_invalid: "This is no name: small letters a to z, digits and . _ + - are allowed.",
  bad_method: "The server does not take passwords of this page.",
  banned: "Too many attempts. Try again later.",
  busy: "The server has too much to do. Try again in a moment.",
  insecure: "A password is not shown over this connection. Open this page by https, or as "
    + "http://localhost on the server's own machine.",
  unreachable: "The server cannot be reached.",
  server_not_proved: "The server did not prove that it knows your password. Do not trust it.",
  taken_over: "You went on elsewhere, in another tab perhaps.",
  admin_kick: "An operator has ended your session.",
  expired: "Your session is over. Log in again.",
  readers_untold: "The group is too large to tell who has read what.",
  reads_private: "Who does not share what they read is told of nobody.",
  unknown_account: "Nobody has this name yet. A name begins when somebody logs in by it.",
  not_member: "There is no such group, or you are not in it.",
  forbidden: "Your role in the group does not allow this.",
  muted: "You may not speak in this group now.",
  group_full: "The group has no room for so many.",
  too_large: "This is too long.",
  too_late: "This message is too old to be called back or edited.",
  unknown_message: "This message is not there any more.",
  invalid: "This is no name of somebody: small letters a to z, digits and . _ + - are allowed.",
  queue_full: "Too many messages wait to be sent. Wait until some of them are.",
  disconnected: "There is no connection now.",
  timed_out: "The server did not answer in time.",
  file_invalid: "This is no file that can be sent: it is empty, or its name is none.",
  file_too_large: "The file is larger than this server takes.",
  media_off: "This server takes no files.",
  type_refused: "Files of this type are not taken.",
  upload_quota: "You may send no more files today.",
  upload_failed: "The file did not arrive. Try again.",
  no_chatroom: "There is no such room.",
  chatroom_full: "The room is full.",
  chatroom_banned: "You are banned from this room.",
  not_in_chatroom: "You are not in this room any more.",
  chatrooms_full: "You are in too many rooms.",
  rate_limited: "The room is too loud just now. Try again.",
  kicked: "A moderator has shown you out of this room.",
  closed: "This room is closed.",
  other: "It did not work",
};

type Fault = keyof typeof FAULTS_EN;

const FAULTS_ZH: Readonly<Record<Fault, string>> = {
  bad_credentials: "名字或密码不正确。",
  not_authorized: "服务器的规则不允许这样做。",
  name_invalid: "名字无效：只能使用小写字母 a 到 z、数字和 . _ + -。",
  bad_method: "服务器不接受本页面的密码登录方式。",
  banned: "尝试次数过多，请稍后再试。",
  busy: "服务器繁忙，请稍后再试。",
  insecure: "此连接上不能出示密码。请用 https 打开本页面，或在服务器本机上打开 http://localhost。",
  unreachable: "无法连接服务器。",
  server_not_proved: "服务器未能证明它知道你的密码，请不要信任它。",
  taken_over: "你已在别处继续，也许是另一个标签页。",
  admin_kick: "管理员结束了你的会话。",
  expired: "会话已过期，请重新登录。",
  readers_untold: "群组人数过多，无法显示谁已读。",
  reads_private: "不公开自己已读状态的人，也看不到别人的。",
  unknown_account: "还没有人使用这个名字。有人用它登录后，它才存在。",
  not_member: "没有这个群组，或者你不是其成员。",
  forbidden: "你在群组中的身份不允许这样做。",
  muted: "你现在不能在这个群组中发言。",
  group_full: "群组容纳不下这么多成员。",
  too_large: "内容太长。",
  too_late: "这条消息发出太久，不能再撤回或编辑。",
  unknown_message: "这条消息已不存在。",
  invalid: "这不是有效的名字：只能使用小写字母 a 到 z、数字和 . _ + -。",
  queue_full: "等待发送的消息过多，请等一些发出后再试。",
  disconnected: "现在没有连接。",
  timed_out: "服务器没有及时回应。",
  file_invalid: "这个文件不能发送：它是空的，或文件名无效。",
  file_too_large: "文件超过了此服务器的大小限制。",
  media_off: "此服务器不接收文件。",
  type_refused: "不接收这种类型的文件。",
  upload_quota: "你今天不能再发送文件了。",
  upload_failed: "文件没有送达，请重试。",
  no_chatroom: "没有这个聊天室。",
  chatroom_full: "聊天室已满。",
  chatroom_banned: "你已被禁止进入这个聊天室。",
  not_in_chatroom: "你已不在这个聊天室。",
  chatrooms_full: "你所在的聊天室过多。",
  rate_limited: "聊天室消息过多，请稍后再试。",
  kicked: "管理员已将你移出聊天室。",
  closed: "聊天室已关闭。",
  other: "操作失败",
};

/** The language that somebody with these preferences reads: the first one that there is. */
export function languageOf(preferred: readonly string[]): Language {
  const found = preferred.map((it) => it.toLowerCase().split("-")[0]);
  return found.find((it): it is Language => it === "en" || it === "zh") ?? "en";
}

/** A word of the page. */
export function wordOf(language: Language, word: Word): string {
  return (language === "zh" ? ZH : EN)[word];
}

/** A sentence about what went wrong. */
export function sentenceOf(language: Language, code: string): string {
  const faults = language === "zh" ? FAULTS_ZH : FAULTS_EN;
  return Object.hasOwn(faults, code) ? faults[code as Fault] : `${faults.other} (${code}).`;
}

/** Who is typing: these, or so many. */
export function sentenceOfTyping(
  language: Language,
  names: readonly string[],
  count: number,
): string {
  if (count === 0) return "";
  if (language === "zh") {
    return `${names.length === 0 ? `${count} 人` : names.join("、")}正在输入……`;
  }
  if (names.length === 0) return `${count} people are typing …`;
  return `${names.join(", ")} ${count === 1 ? "is" : "are"} typing …`;
}

/** When something was said: the time today, else the day too. */
export function timeOf(language: Language, at: number, now: number): string {
  const locale = language === "zh" ? "zh-CN" : "en-GB";
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  const clock = { hour: "2-digit", minute: "2-digit" } as const;
  const day = { day: "numeric", month: "short" } as const;
  return new Intl.DateTimeFormat(locale, isToday ? clock : { ...day, ...clock }).format(at);
}
