/** All texts of the page, in English and Chinese: `EN` and `ZH` have the same keys. */

import type { Tie } from "./presence.js";

/** A language of the page. */
export type Language = "en" | "zh";

const EN = {
  about: "Messages are stored on the server before they count as sent.",
  accept: "Accept",
  account: "User name",
  add: "Add",
  addContact: "Add to contacts",
  addNames: "User names to add, separated by commas",
  attach: "Attach files",
  away: "away",
  back: "Back to conversations",
  block: "Block",
  busy: "busy",
  cancel: "Cancel",
  caption: "Add a caption",
  closed: "only admins can write",
  closedInvited: "You are invited to this group. Accept the invitation to write.",
  closedLeft: "You are no longer a member of this group, but you can still read it.",
  connect: "Reconnect now",
  connecting: "Connecting …",
  decline: "Decline",
  delivered: "delivered",
  draft: "Draft",
  edit: "Edit",
  edited: "edited",
  editing: "Editing a message",
  ended: "Disconnected.",
  enter: "Log in",
  failed: "not sent",
  files: "Files to send",
  foundNothing: "No results.",
  foundNothingYet: "No results so far.",
  groupNames: "User names, separated by commas",
  groupTitle: "Group name",
  here: "Use this tab",
  hide: "Hide until the next message",
  inRoom: "online",
  language: "Language",
  leave: "Log out",
  lost: "Connection lost. Reconnecting …",
  make: "Create group",
  members: "Members",
  mentioned: "you were mentioned",
  more: "Load earlier messages",
  moreFound: "Search further back",
  moreOf: "Message actions",
  morePeople: "Show more conversations",
  mute: "Mute",
  muted: "muted",
  newest: "Jump to latest",
  newGroup: "New group",
  newInvitation: "Group invitation",
  newMessage: "New message",
  newMessages: "New messages",
  noneYet: "No messages yet. Write the first one.",
  noPeople: "No conversations yet. Enter a user name to start one.",
  notify: "Turn on notifications",
  notifyDenied: "Notifications are blocked in the settings of your browser.",
  notifyNoText: "Hide message text in notifications",
  notifyText: "Show message text in notifications",
  offered: "Suggestions",
  offline: "offline",
  online: "online",
  open: "Chat",
  options: "Conversation settings",
  password: "Password",
  passwordNote: "Leave empty if this server does not ask for one.",
  peer: "New chat: user name",
  people: "Conversations",
  pin: "Pin to the top",
  pinned: "pinned",
  quit: "Leave group",
  quote: "Quote",
  quoting: "Quoting:",
  read: "read",
  recall: "Delete for everyone",
  remove: "Remove",
  removeContact: "Remove from contacts",
  say: "Write a message",
  search: "Search",
  searching: "Searching …",
  send: "Send",
  sendAgain: "Retry",
  sent: "sent",
  settings: "Settings",
  silent: "muted",
  sought: "Search messages",
  start: "Select a conversation, or start one with a user name.",
  stay: "Stay logged in on this browser",
  title: "Holdline Chat",
  unblock: "Unblock",
  unhide: "Show in list",
  unmute: "Unmute",
  unnotify: "Turn off notifications",
  unpin: "Unpin",
  unread: "unread",
  uploading: "Uploading",
  waiting: "waiting",
  wantsContact: "Contact request",
  whoRead: "Read by",
};

/** The names of the page's words. */
export type Word = keyof typeof EN;

const ZH: Readonly<Record<Word, string>> = {
  about: "每条消息先存储，才算已发送。",
  accept: "接受",
  account: "用户名",
  add: "添加",
  addContact: "添加为联系人",
  addNames: "要添加的用户名，用逗号分开",
  attach: "添加文件",
  away: "离开",
  back: "返回会话列表",
  block: "屏蔽",
  busy: "忙碌",
  cancel: "取消",
  caption: "添加说明",
  closed: "仅管理员可发言",
  closedInvited: "你被邀请加入这个群组。接受邀请后即可发言。",
  closedLeft: "你已不是这个群组的成员，但仍可阅读之前的消息。",
  connect: "立即重连",
  connecting: "正在连接……",
  decline: "拒绝",
  delivered: "已送达",
  draft: "草稿",
  edit: "编辑",
  edited: "已编辑",
  editing: "正在编辑消息。",
  ended: "已断开连接。",
  enter: "登录",
  failed: "未发送",
  files: "待发送的文件",
  foundNothing: "没有找到。",
  foundNothingYet: "目前还没有找到。",
  groupNames: "成员的用户名，用逗号分开",
  groupTitle: "群组名称",
  here: "在此标签页使用",
  hide: "隐藏，直到有新消息",
  inRoom: "人在线",
  language: "语言",
  leave: "退出登录",
  lost: "连接已断开，正在重连……",
  make: "创建群组",
  members: "成员",
  mentioned: "提到了你",
  more: "加载更早的消息",
  moreFound: "继续往前搜索",
  moreOf: "此消息的更多操作",
  morePeople: "显示更多会话",
  mute: "免打扰",
  muted: "已禁言",
  newest: "回到最新",
  newGroup: "新建群组",
  newInvitation: "群组邀请",
  newMessage: "新消息",
  newMessages: "新消息",
  noneYet: "还没有消息，写第一条吧。",
  noPeople: "还没有会话。输入用户名，开始聊天。",
  notify: "打开通知",
  notifyDenied: "浏览器的设置禁止了通知。",
  notifyNoText: "在通知中隐藏消息内容",
  notifyText: "在通知中显示消息内容",
  offered: "建议",
  offline: "离线",
  online: "在线",
  open: "聊天",
  options: "会话设置",
  password: "密码",
  passwordNote: "服务器允许无密码登录时可留空。",
  peer: "新聊天：用户名",
  people: "会话",
  pin: "置顶",
  pinned: "已置顶",
  quit: "离开群组",
  quote: "引用",
  quoting: "正在引用：",
  read: "已读",
  recall: "为所有人删除",
  remove: "移除",
  removeContact: "从联系人中移除",
  say: "输入消息",
  search: "搜索",
  searching: "正在搜索……",
  send: "发送",
  sendAgain: "重试",
  sent: "已发送",
  settings: "设置",
  silent: "免打扰",
  sought: "搜索消息",
  start: "选择一个会话，或输入用户名开始聊天。",
  stay: "在此浏览器上保持登录",
  title: "Holdline 聊天",
  unblock: "取消屏蔽",
  unhide: "在列表中显示",
  unmute: "取消免打扰",
  unnotify: "关闭通知",
  unpin: "取消置顶",
  unread: "条未读",
  uploading: "正在上传",
  waiting: "等待发送",
  wantsContact: "联系人请求",
  whoRead: "谁已读",
};

/** What two people have to do with each other, where the page offers to change it. */
export function sentenceOfContact(language: Language, tie: Tie, name: string): string {
  const zh = language === "zh";
  if (tie === "asks") return zh ? `${name} 想添加你为联系人` : `${name} wants to be your contact.`;
  if (tie === "asked") return zh ? "已发送联系人请求" : "Contact request sent.";
  return tie === "blocked" ? (zh ? `你已屏蔽 ${name}` : `You blocked ${name}.`) : "";
}

/** How many members a group has. */
export function sentenceOfMembers(language: Language, count: number): string {
  if (language === "zh") return `${count} 名成员`;
  return count === 1 ? "1 member" : `${count} members`;
}

/** How many messages of a chatroom were left out. */
export function sentenceOfMissed(language: Language, count: number): string {
  if (language === "zh") return `${count} 条消息被略过`;
  return count === 1 ? "1 message was skipped" : `${count} messages were skipped`;
}

/** How many of the others have read a group message. */
export function sentenceOfReaders(language: Language, read: number, total: number): string {
  return language === "zh" ? `${total} 人中 ${read} 人已读` : `read by ${read} of ${total}`;
}

/** Sentences for errors, by the code of the library; `other` for all codes without one. */
const FAULTS_EN = {
  bad_credentials: "Wrong user name or password.",
  not_authorized: "A rule of the server forbids this.",
  name_invalid: "Invalid user name: use lowercase letters a to z, digits and . _ + -",
  bad_method: "The server does not accept passwords from this page.",
  banned: "Too many attempts. Try again later.",
  busy: "The server is busy. Try again in a moment.",
  insecure: "The password is not sent over an unencrypted connection. Open this page over https, or as "
    + "http://localhost on the server itself.",
  unreachable: "The server cannot be reached.",
  server_not_proved: "The server could not prove that it knows your password. Do not trust it.",
  taken_over: "You continued elsewhere, for example in another tab.",
  admin_kick: "An administrator ended your session.",
  expired: "Your session has expired. Log in again.",
  readers_untold: "Read receipts are off in groups of this size.",
  reads_private: "You do not share read receipts, so those of others are hidden.",
  unknown_account: "This user does not exist. New users appear after their first login.",
  not_member: "This group does not exist, or you are not a member.",
  forbidden: "Your role does not allow this.",
  muted: "You are muted in this group.",
  silenced: "You are muted on this server.",
  blocked: "You cannot write to this user.",
  rejected: "The server rejected this message.",
  group_full: "The group is full.",
  group_banned: "You are banned from this group.",
  groups_full: "You are in too many groups.",
  invitation_needed: "You can join this group by invitation only.",
  too_large: "The message is too long.",
  too_late: "This message is too old to be edited or deleted.",
  unknown_message: "This message no longer exists.",
  invalid: "Invalid user name: use lowercase letters a to z, digits and . _ + -",
  queue_full: "Too many unsent messages. Wait until some have been sent.",
  store_full: "The server cannot store messages at the moment: its disk is full.",
  store_failed: "The server cannot store messages at the moment.",
  disconnected: "Not connected.",
  timed_out: "The server did not respond in time.",
  file_invalid: "This file cannot be sent: it is empty, or its name is invalid.",
  file_too_large: "The file is too large for this server.",
  media_off: "This server does not accept files.",
  type_refused: "This server does not accept files of this type.",
  upload_quota: "You have reached today's upload limit.",
  upload_failed: "The upload failed. Try again.",
  no_chatroom: "This chatroom does not exist.",
  chatroom_full: "The chatroom is full.",
  chatroom_banned: "You are banned from this chatroom.",
  not_in_chatroom: "You are no longer in this chatroom.",
  chatrooms_full: "You are in too many chatrooms.",
  rate_limited: "Too many messages. Try again in a moment.",
  kicked: "A moderator removed you from this chatroom.",
  closed: "This chatroom is closed.",
  other: "Something went wrong",
};

type Fault = keyof typeof FAULTS_EN;

const FAULTS_ZH: Readonly<Record<Fault, string>> = {
  bad_credentials: "用户名或密码不正确。",
  not_authorized: "服务器的规则不允许这样做。",
  name_invalid: "用户名无效：只能使用小写字母 a 到 z、数字和 . _ + -。",
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
  unknown_account: "该用户不存在。新用户首次登录后才会出现。",
  not_member: "没有这个群组，或者你不是其成员。",
  forbidden: "你在群组中的身份不允许这样做。",
  muted: "你已在这个群组中被禁言。",
  silenced: "你已在此服务器上被禁言。",
  blocked: "你不能给这个用户发消息。",
  rejected: "服务器拒绝了这条消息。",
  group_full: "群组已满。",
  group_banned: "你已被禁止进入这个群组。",
  groups_full: "你所在的群组过多。",
  invitation_needed: "只有收到邀请才能加入这个群组。",
  too_large: "内容太长。",
  too_late: "这条消息发出太久，不能再编辑或删除。",
  unknown_message: "这条消息已不存在。",
  invalid: "用户名无效：只能使用小写字母 a 到 z、数字和 . _ + -。",
  queue_full: "等待发送的消息过多，请等一些发出后再试。",
  store_full: "服务器的磁盘已满，暂时无法存储消息。",
  store_failed: "服务器暂时无法存储消息。",
  disconnected: "未连接。",
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
  rate_limited: "消息过多，请稍后再试。",
  kicked: "管理员已将你移出聊天室。",
  closed: "聊天室已关闭。",
  other: "操作失败",
};

/** All of them, by language. */
export const TEXTS = { en: [EN, FAULTS_EN], zh: [ZH, FAULTS_ZH] } as const;

/** The language that somebody with these preferences reads: the first one that there is. */
export function languageOf(preferred: readonly string[]): Language {
  const found = preferred.map((it) => it.toLowerCase().split("-")[0]);
  return found.find((it): it is Language => it === "en" || it === "zh") ?? "en";
}

/** A word of the page. */
export function wordOf(language: Language, word: Word): string {
  return (language === "zh" ? ZH : EN)[word];
}

/** The sentence for an error. */
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
