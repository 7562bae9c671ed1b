/** Sentences for changes of groups, in English and Chinese. Knows no page and no client. */
import { shortName } from "./place.js";
const EN = {
    create: (by, whom, title) => `${by} created the group${inQuotes(title)}${whom && ` with ${whom}`}`,
    add: (by, whom) => `${by} added ${whom}`,
    remove: (by, whom) => `${by} removed ${whom}`,
    leave: (by) => `${by} left`,
    "hand-over": (by, whom) => `${by} made ${whom} the only owner`,
    "add-owner": (by, whom) => `${by} made ${whom} an owner`,
    "remove-owner": (by, whom) => `${by} made ${whom} an admin, no longer an owner`,
    promote: (by, whom) => `${by} made ${whom} an admin`,
    demote: (by, whom) => `${by} made ${whom} a member again`,
    mute: (by, whom) => `${by} muted ${whom}`,
    unmute: (by, whom) => `${by} unmuted ${whom}`,
    close: (by) => `${by} closed the group: only admins can write`,
    open: (by) => `${by} opened the group: everyone can write`,
    rename: (by, _, title) => title === "" ? `${by} removed the group name` : `${by} renamed the group to${inQuotes(title)}`,
    dissolve: (by) => `${by} dissolved the group`,
    join: (by) => `${by} joined`,
    ban: (by, whom) => `${by} banned ${whom}`,
    unban: (by, whom) => `${by} unbanned ${whom}`,
    describe: (by, _, title) => title === "" ? `${by} removed the description` : `${by} changed the description: ${title}`,
    lock: (by) => `${by} locked the group: members are added by its admins`,
    unlock: (by) => `${by} unlocked the group: everyone who knows its address can join`,
    reveal: (by) => `${by} made the group public: it is in the list of groups`,
    hide: (by) => `${by} removed the group from the list of groups`,
    persist: (by) => `${by} made the group permanent`,
    unpersist: (by) => `${by} made the group temporary: it ends when its room is empty`,
    invite: (by, whom) => `${by} invited ${whom}`,
};
const ZH = {
    create: (by, whom, title) => `${by} 创建了群组${inQuotes(title)}${whom && `，成员：${whom}`}`,
    add: (by, whom) => `${by} 添加了 ${whom}`,
    remove: (by, whom) => `${by} 移除了 ${whom}`,
    leave: (by) => `${by} 离开了群组`,
    "hand-over": (by, whom) => `${by} 把群组转让给 ${whom}`,
    "add-owner": (by, whom) => `${by} 将 ${whom} 设为群主之一`,
    "remove-owner": (by, whom) => `${by} 将 ${whom} 由群主改为管理员`,
    promote: (by, whom) => `${by} 将 ${whom} 设为管理员`,
    demote: (by, whom) => `${by} 取消了 ${whom} 的管理员身份`,
    mute: (by, whom) => `${by} 将 ${whom} 禁言`,
    unmute: (by, whom) => `${by} 解除了 ${whom} 的禁言`,
    close: (by) => `${by} 开启了全员禁言：只有群主和管理员可以发言`,
    open: (by) => `${by} 关闭了全员禁言`,
    rename: (by, _, title) => title === "" ? `${by} 去掉了群组的名称` : `${by} 将群组改名为${inQuotes(title)}`,
    dissolve: (by) => `${by} 解散了群组`,
    join: (by) => `${by} 加入了`,
    ban: (by, whom) => `${by} 将 ${whom} 加入了黑名单`,
    unban: (by, whom) => `${by} 将 ${whom} 移出了黑名单`,
    describe: (by, _, title) => title === "" ? `${by} 去掉了群组的简介` : `${by} 更新了群组简介：${title}`,
    lock: (by) => `${by} 锁定了群组：只有被添加的人才能加入`,
    unlock: (by) => `${by} 开放了群组：知道地址的人都可以加入`,
    reveal: (by) => `${by} 公开了群组：搜索群组的人都能找到它`,
    hide: (by) => `${by} 隐藏了群组：它不再出现在列表中`,
    persist: (by) => `${by} 将群组设为永久群组：它会一直保留`,
    unpersist: (by) => `${by} 将群组设为临时群组：房间里没有人时它就会解散`,
    invite: (by, whom) => `${by} 邀请了 ${whom}`,
};
const ROLES = {
    en: { member: "member", admin: "admin", owner: "owner" },
    zh: { member: "成员", admin: "管理员", owner: "群主" },
};
function inQuotes(title) {
    return title === "" ? "" : ` “${title}”`;
}
/** A person as this account reads it: `You` at the beginning of a sentence, `you`, or the name. */
function person(language, address, account, isFirst) {
    if (address !== account)
        return shortName(address, account.slice(account.indexOf("@") + 1));
    if (language === "zh")
        return "你";
    return isFirst ? "You" : "you";
}
/** The sentence for changes of a group that were made at once, as this account reads it. */
export function sentenceOfChanges(language, from, changes, account) {
    const sentences = language === "zh" ? ZH : EN;
    const parts = changes.map(({ verb, members, title }, at) => {
        // The owner is the first member of a new group.
        const named = verb === "create" ? members.slice(1) : members;
        const names = named.map((it) => person(language, it, account, false));
        const whom = names.join(language === "zh" ? "、" : ", ");
        return sentences[verb](person(language, from, account, at === 0), whom, title);
    });
    return parts.join(language === "zh" ? "；" : "; ");
}
/** The sentence for a change of which only its author is known. */
export function sentenceOfSomeChange(language, from, account) {
    const by = person(language, from, account, true);
    return language === "zh" ? `${by} 更改了群组` : `${by} changed the group`;
}
/** The sentence for a recalled message. */
export function sentenceOfRecall(language, from, account) {
    const by = person(language, from, account, true);
    return language === "zh" ? `${by} 删除了一条消息` : `${by} deleted a message`;
}
/** A role's name. */
export function roleName(language, role) {
    return ROLES[language][role];
}
